import type { Frame } from '../../src/core/protocols/protocol.ts'

/** What a model says in one streamed answer: thinking, text, and the arguments of one tool call, each in the pieces in which it comes. */
export interface Speech {
  thoughts: string[]
  texts: string[]
  inputs: string[]
}

/** One write of a provider: the frames that it sends together. */
export type Chunk = Frame[]

/** How one provider family streams what a model says. */
export type Voice = (speech: Speech) => Chunk[]

/** Events that belong together: what opens them, one for each piece, what closes them. */
export interface Block {
  open: object[]
  deltas: object[]
  close: object[]
}

/** The names that every voice uses, as long as real ones are. */
export const SIGNATURE =
  'EqsBCkgICxABGAIqQOWPB6/PmA5SW9jC6FvaNq3E+U9ev4FMWcFWuAho+VGLCtazKc5WDjQ5i0MuxsY0o5pKDSVWVKii8KJDusXH4eASDK7j'.repeat(
    4,
  )
export const TOOL = { id: 'call_Zk3vW8mQp2LrT6yNc4XbJ1aH', name: 'get_weather' }
export const TOKENS = { input: 4_211, cached: 1_920, output: 640, reasoning: 96 }

/**
 * The events as writes: the first and the last stand alone, and between them there is one for each piece, with what opens and
 * closes its block. A block without pieces is left out.
 */
export function chunksOf(
  opening: object[],
  blocks: Block[],
  ending: object[],
  frameOf: (event: object) => Frame,
): Chunk[] {
  return [opening, ...blocks.flatMap(writesOf), ending].map(events => events.map(frameOf))
}

const writesOf = ({ open, deltas, close }: Block): object[][] =>
  deltas.map((delta, i) => [
    ...(i === 0 ? open : []),
    delta,
    ...(i === deltas.length - 1 ? close : []),
  ])

/** An event without a name. */
export const unnamed = (event: object): Frame => ({ event: null, data: JSON.stringify(event) })

/** An event that is named by its type. */
export const named = (event: object): Frame => ({
  event: (event as { type: string }).type,
  data: JSON.stringify(event),
})

const WORDS =
  ' the gateway reads what a provider sends and says it again in the words that its client knows,'.match(
    / \S+/g,
  ) ?? []

/** So many pieces of text, each about as long as a token. */
export const words = (count: number): string[] =>
  Array.from(
    { length: count },
    (_, i) => `${WORDS[i % WORDS.length]}${i % 10 === 9 ? ` ${i}` : ''}`,
  )

/** The JSON of a tool's arguments, in so many pieces of so many characters. */
export function input(pieces: number, characters: number): string[] {
  const [open, close] = ['{"city":"', '"}']
  const text = `${open}${'Lisbon '.repeat(Math.ceil((pieces * characters) / 7)).slice(0, pieces * characters - open.length - close.length)}${close}`
  return Array.from({ length: pieces }, (_, i) => text.slice(i * characters, (i + 1) * characters))
}

/** What every stream of the benchmark says: a thought, 200 pieces of text, a call. */
export const SPEECH: Speech = { thoughts: words(10), texts: words(200), inputs: input(5, 24) }
