import type { TSchema } from '@sinclair/typebox'
import type { ErrorFormat as DialectRefusal } from '../translation/dialects/dialect.ts'

/** The description of one operation. `readBody` reads the body, after the key has been checked. */
export interface Operation {
  /** The operation's name in clients. */
  id: string
  tag: string
  summary: string
  body?: TSchema
  /** The media type of its body, if that is not JSON. */
  accepts?: string
  query?: TSchema
  params?: Record<string, string>
  /** The headers that it reads, with their allowed values; without any, all are. */
  headers?: Record<string, string[]>
  /** Answers with a tag of what it shows, which a change may require. */
  hasTag?: true
  /** The statuses that it may answer with, the successful one first. */
  statuses: number[]
  /** The media types of successful answers other than JSON. */
  produces?: string[]
  /** Another form of successful answers, also in JSON. */
  other?: OtherAnswer
  /** The form of its refusals, if it is not the usual one. */
  refusal?: Refusal
  /** Is a page for people, and no part of the API's description. */
  isPage?: boolean
  /** Needs no key. */
  open?: boolean
  /** Accepts its key in `x-api-key` too. */
  eitherHeader?: boolean
  /** The header of a door’s clients in which its key may come too. */
  keyHeader?: KeyHeader
}

/** Another form of successful answers: its name and schema in the description, and its use. */
export interface OtherAnswer {
  name: string
  schema: TSchema
  when: string
}

/** A form of refusals, as a dialect defines it. */
export interface Refusal extends DialectRefusal {
  /** Its media type, if it is not JSON’s. */
  contentType?: string
}

/** Returns a route's hooks. Elysia leaves the body unparsed; `openapi.ts` reads the description. */
export const describeOperation = (details: Operation) => ({
  parse: 'none' as const,
  detail: { 'x-operation': details },
})

/** A header in which the clients of a door send their key. */
export type KeyHeader = 'api-key' | 'x-goog-api-key'
