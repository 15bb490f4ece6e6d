import { type Kysely, sql } from 'kysely'
import type { Tables } from './tables.ts'

/** Selects a list's values as rows. It takes one parameter, however long the list is. */
export const selectValues = <Value extends string | number>(
  kysely: Kysely<Tables>,
  values: Value[],
) =>
  kysely
    .selectFrom(sql<{ value: Value }>`json_each(${JSON.stringify(values)})`.as('listed'))
    .select('listed.value')
