-- Revenue of one day.
SELECT * FROM source
WHERE day = '{{ params.day }}'
