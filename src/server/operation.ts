import type { TSchema } from '@sinclair/typebox'

/** What the description tells of one operation. The body is read by `readBody`, after the key has been looked at. */
export interface Operation {
  /** The operation's name in clients. */
  id: string
  tag: string
  summary: string
  body?: TSchema
  query?: TSchema
  params?: Record<string, string>
  /** The statuses it may answer with, the good one first. */
  statuses: number[]
  /** What else a good answer may be than JSON. */
  produces?: string[]
  /** Needs no key. */
  open?: boolean
}

/** An operation as a route carries it: Elysia leaves the body alone, and `openapi.ts` finds the description. */
export const operation = (described: Operation) => ({ parse: 'none' as const, detail: { 'x-operation': described } as object })
