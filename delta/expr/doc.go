// Package expr holds the row filter (--where) and the order (--order-by) of rows.
//
// Nouns: Predicate (a filter, typed against one schema), Evaluator (runs it over
// batches of columns), Bounds (what is known of a column in one file), Order
// (one column to sort by), Column (what a filter looks at: a column, or a field inside
// of structs).
//
// The language:
//
//	expr    = expr OR expr | expr AND expr | NOT expr | (expr) | test | TRUE | FALSE | NULL | boolean column
//	test    = operand (= | <> | != | < | <= | > | >=) operand
//	        | operand [NOT] BETWEEN operand AND operand
//	        | operand [NOT] IN (operand, ...)
//	        | column [NOT] LIKE 'pattern' [ESCAPE 'c']
//	        | operand IS [NOT] NULL
//	operand = column | literal
//	column  = name | column.name                    (a field inside of a struct)
//	name    = word | "any name" | `any name`        (upper and lower case are one)
//	literal = 'text' | number | 0x00ff | X'00ff' | TRUE | FALSE | NULL | DATE 'text' | TIMESTAMP 'text'
//
// Invariants:
//
//  1. A literal takes the type of the column it is compared with, exactly: 0.1
//     against a decimal is that decimal, and what the type can't hold is an
//     error that says its range. A fraction that a whole number or a decimal
//     of smaller scale can't be is compared as the number it is: id > 1.5
//     means id >= 2, id = 1.5 is never true.
//  2. Three-valued logic: a comparison with NULL is unknown, and only rows for
//     which the filter is true are taken. A field of a struct that is NULL is NULL.
//  3. NaN equals NaN and is above every other number; -0.0 equals 0.0; text is
//     ordered by its UTF-8 bytes. (Spark and DuckDB say the same.)
//  4. A timestamp text without an offset is UTC, and a date there is its first instant.
//  5. In LIKE, % is any text, _ one character, and a backslash takes the
//     meaning from the character after it (as in MySQL and Spark), unless
//     ESCAPE names another one.
//  6. CanSkip never skips a file that has a matching row, as long as its Bounds are true.
//  7. Errors of a text are *SyntaxError with the place; no text makes anything panic.
package expr
