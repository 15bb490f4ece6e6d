import type { Json } from '../../../src/core/kernel/json.ts'

/** What a provider says, in no provider's words. */
export interface Said {
  text?: string
  /** What it thought, and what it wants back beside it. */
  thought?: Thought
  calls?: Call[]
  finish: 'stop' | 'length' | 'tool_calls' | 'refusal'
}

export interface Thought {
  text: string
  signature: string
}

/** A tool call. `input` is the raw JSON of its arguments. */
export interface Call {
  id: string
  name: string
  input: string
}

/** What a provider was asked, in no provider's words. */
export interface Heard {
  system: string
  /** Who said what: `user: Hi`, a line for each text, in order. */
  lines: string[]
  /** The base64 of each picture. */
  images: string[]
  calls: Call[]
  /** What the tools answered; the name where the provider has no ids. */
  results: { id: string; text: string }[]
  thoughts: Thought[]
  /** The names of the tools, without the one that a schema may be asked for by. */
  tools: string[]
  /** `auto`, `required`, `none`, or the tool that must be called; null where nothing was said. */
  choice: string | null
  /** The schema that the answer must fit. */
  schema: unknown
}

/** A failure as the provider words it. */
export interface Refused {
  status: number
  body: Json
}

/** A server of one provider family: it answers anything in its family's words, and says what it was asked. */
export interface Voice {
  /** The type of a streamed answer. */
  streamType: string
  heard(body: Json): Heard
  whole(said: Said): unknown
  stream(said: Said): Uint8Array
  /** A stream that says this and then fails, by the family's own event. */
  broken(text: string): Uint8Array
  /** It has too much to do. */
  overloaded: Refused
}

/** 10 tokens in and 5 out, in every family's words. */
export const TOKENS = { input: 10, output: 5 }

/** What nobody has said. */
export const nothingHeard = (): Heard => ({
  system: '',
  lines: [],
  images: [],
  calls: [],
  results: [],
  thoughts: [],
  tools: [],
  choice: null,
  schema: null,
})

/** Server-sent events, each with the name that its type gives it where the family names them. */
export const sse = (events: object[], named = false): Uint8Array =>
  Buffer.from(
    events
      .map(
        event =>
          `${named ? `event: ${(event as { type: string }).type}\n` : ''}data: ${JSON.stringify(event)}\n\n`,
      )
      .join(''),
  )

/** A text in two pieces, so that streams have something to put together. */
export const halves = (text: string): string[] =>
  [text.slice(0, Math.ceil(text.length / 2)), text.slice(Math.ceil(text.length / 2))].filter(
    Boolean,
  )

/** The base64 of a data URL; any other URL as it is. */
export const base64Of = (url: string): string =>
  url.startsWith('data:') ? url.slice(url.indexOf(',') + 1) : url
