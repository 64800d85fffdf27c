SELECT * FROM audited WHERE day <> '{{ params.day }}'
