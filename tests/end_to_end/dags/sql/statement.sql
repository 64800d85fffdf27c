DROP TABLE {{ params.table }}
