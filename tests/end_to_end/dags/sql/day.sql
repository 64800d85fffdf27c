day = '{{ params.day }}'
