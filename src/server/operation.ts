import type { TSchema } from '@sinclair/typebox'
import type { Refusal as DialectRefusal } from '../core/dialects/dialect.ts'

/** What the description tells of one operation. The body is read by `readBody`, after the key has been looked at. */
export interface Operation {
  /** The operation's name in clients. */
  id: string
  tag: string
  summary: string
  body?: TSchema
  query?: TSchema
  params?: Record<string, string>
  /** Headers that it heeds, with the values that they may have. */
  headers?: Record<string, string[]>
  /** The statuses it may answer with, the good one first. */
  statuses: number[]
  /** What else a good answer may be than JSON. */
  produces?: string[]
  /** What a good answer may be besides, in JSON too. */
  other?: OtherAnswer
  /** How its refusals look, where it is not the usual. */
  refusal?: Refusal
  /** Needs no key. */
  open?: boolean
  /** Takes its key in `x-api-key` too. */
  eitherHeader?: boolean
}

/** Another form of good answers: its name in the description, its schema there, and when it is given. */
export interface OtherAnswer {
  name: string
  schema: TSchema
  when: string
}

/** A form of refusals, as a dialect has it. */
export interface Refusal extends DialectRefusal {
  /** Its media type, where it is not JSON’s. */
  contentType?: string
}

/** An operation as a route carries it: Elysia leaves the body alone, and `openapi.ts` finds the description. */
export const operation = (described: Operation) => ({
  parse: 'none' as const,
  detail: { 'x-operation': described } as object,
})
