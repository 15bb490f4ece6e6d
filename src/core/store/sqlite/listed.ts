import { type Kysely, sql } from 'kysely'
import type { Tables } from './tables.ts'

/** Gives a list as rows, however long it is. */
export const listed = <Value extends string | number>(kysely: Kysely<Tables>, values: Value[]) =>
  kysely
    .selectFrom(sql<{ value: Value }>`json_each(${JSON.stringify(values)})`.as('listed'))
    .select('listed.value')
