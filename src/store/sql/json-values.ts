import { type Kysely, sql } from 'kysely'
import type { Tables } from './tables.ts'

/**
 * Selects a list's texts as rows. It takes one parameter, however long the list is. What not every
 * engine reads in JSON, a zero or half a character, is in no text on record either.
 */
export const selectTexts = <Text extends string>(kysely: Kysely<Tables>, values: Text[]) =>
  kysely
    .selectFrom(sql<{ value: Text }>`json_each(${JSON.stringify(values.map(mend))})`.as('listed'))
    .select('listed.value')

/** Selects a list's whole numbers as rows, as `selectTexts` does. */
export const selectNumbers = (kysely: Kysely<Tables>, values: number[]) =>
  kysely
    .selectFrom(sql`json_each(${JSON.stringify(values)})`.as('listed'))
    .select(sql<number>`cast(listed.value as bigint)`.as('value'))

const mend = (text: string): string => text.toWellFormed().replaceAll('\0', '\ufffd')
