/** What a client asks, in no dialect's words. */
export interface Asking {
  model: string
  stream: boolean
  system?: string
  text?: string
  /** A data URL, or one to fetch. */
  image?: string
  /** The names of tools that take a city and an id. */
  tools?: string[]
  /** A tool that must be called. */
  mustCall?: string
  schema?: Record<string, unknown>
  thinks?: boolean
  /** What was answered to the text, as the client got it, and what its tools made of it. */
  after?: { answer: Reading; results: string[] }
}

/** What a client makes of an answer, in no dialect's words. */
export interface Reading {
  text: string
  thought: string
  calls: { id: string; name: string; input: unknown }[]
  finish: string | null
  tokens: { input: number; output: number } | null
  /** The answer in its own form, as the client would send it back. */
  own: unknown
  /** How it failed: the status that came before the answer, or null for one that broke off. */
  failure: { status: number | null; type: string } | null
}

/** An official client of one dialect, asking a gateway. */
export interface Dialect {
  ask(base: string, key: string, asking: Asking): Promise<Reading>
}

/** The parameters of every tool. */
export const PARAMETERS = {
  type: 'object' as const,
  properties: { city: { type: 'string' }, id: { type: 'integer' } },
  required: ['city'],
}

/** A reading of nothing yet. */
export const nothingRead = (): Reading => ({
  text: '',
  thought: '',
  calls: [],
  finish: null,
  tokens: null,
  own: null,
  failure: null,
})
