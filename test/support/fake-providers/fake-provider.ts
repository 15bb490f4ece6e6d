import type { Json } from '../../../src/base/json.ts'

/** An answer of a provider, independent of protocols. */
export interface ScriptedAnswer {
  text?: string
  /** The thinking, and the signature that the provider expects back with it. */
  thought?: ScriptedThought
  calls?: ScriptedToolCall[]
  /** What it counts, in place of `TOKENS`: openai-chat alone. */
  usage?: { input: number; output: number }
  finish: 'stop' | 'length' | 'tool_calls' | 'refusal'
}

export interface ScriptedThought {
  text: string
  signature: string
}

/** A tool call. `input` is the raw JSON of its arguments, or the text that a custom tool takes. */
export interface ScriptedToolCall {
  id: string
  name: string
  input: string
  /** The namespace of its tool, and whether that takes text: openai-responses alone. */
  namespace?: string
  isCustom?: boolean
}

/** A request as a provider received it, independent of protocols. */
export interface ReceivedRequest {
  system: string
  /** The texts with their roles, in order: `user: Hi`. */
  lines: string[]
  /** The images, as base64. */
  images: string[]
  calls: ScriptedToolCall[]
  /** The tool results. The id is the tool's name if the protocol has no ids. */
  results: { id: string; text: string }[]
  thoughts: ScriptedThought[]
  /** The names of the tools, without the one that stands for the answer format. */
  tools: string[]
  /**
   * `auto`, `required`, `none`, or the name of the forced tool. Null if the request has no choice.
   */
  choice: string | null
  /** The schema that the answer must match. */
  schema: unknown
}

/** An error response in the protocol's own form. */
export interface FailureResponse {
  status: number
  body: Json
}

/**
 * A fake provider of one protocol: it renders scripted answers and reads the requests it receives.
 */
export interface FakeProvider {
  /** The content type of a stream. */
  streamType: string
  readRequest(body: Json): ReceivedRequest
  renderAnswer(answer: ScriptedAnswer): unknown
  renderStream(answer: ScriptedAnswer): Uint8Array
  /** Renders a stream that sends this text and then fails with the protocol's own error event. */
  renderBrokenStream(text: string): Uint8Array
  /** The response of an overloaded provider. */
  overloadedResponse: FailureResponse
}

/** The usage of every answer: 10 input tokens and 5 output tokens. */
export const TOKENS = { input: 10, output: 5 }

/** Returns a request without any content. */
export const createReceivedRequest = (): ReceivedRequest => ({
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

/**
 * Renders server-sent events. Each gets its type as the event name if the protocol names events.
 */
export const renderSse = (events: object[], named = false): Uint8Array =>
  Buffer.from(
    events
      .map(event => {
        const name = named ? `event: ${(event as { type: string }).type}\n` : ''
        return `${name}data: ${JSON.stringify(event)}\n\n`
      })
      .join(''),
  )

/** Splits a text into two pieces, so that streams have something to reassemble. */
export const splitInHalf = (text: string): string[] =>
  [text.slice(0, Math.ceil(text.length / 2)), text.slice(Math.ceil(text.length / 2))].filter(
    Boolean,
  )

/** Returns the base64 of a data URL, and any other URL unchanged. */
export const extractBase64 = (url: string): string =>
  url.startsWith('data:') ? url.slice(url.indexOf(',') + 1) : url
