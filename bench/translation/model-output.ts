import type { Frame } from '../../src/translation/protocols/protocol.ts'

/**
 * The output of a model in one streamed answer: thinking, text, and the arguments of one tool call,
 * each in its pieces.
 */
export interface ModelOutput {
  thoughts: string[]
  texts: string[]
  inputs: string[]
}

/** One write of a provider: the frames that it sends at once. */
export type Chunk = Frame[]

/** Renders the stream of one provider family for an output. */
export type StreamRenderer = (speech: ModelOutput) => Chunk[]

/**
 * Events that belong together: those that open the block, one for each piece, and those that close
 * it.
 */
export interface Block {
  open: object[]
  deltas: object[]
  close: object[]
}

/** The values that every stream uses, as long as real ones. */
export const SIGNATURE = (
  'EqsBCkgICxABGAIqQOWPB6/PmA5SW9jC6FvaNq3E+U9ev4FMWcFWuAho+VGLCtazKc5WDjQ5i0MuxsY0o5pKDSVWVKii' +
  '8KJDusXH4eASDK7j'
).repeat(4)
export const TOOL = { id: 'call_Zk3vW8mQp2LrT6yNc4XbJ1aH', name: 'get_weather' }
export const TOKENS = { input: 4_211, cached: 1_920, output: 640, reasoning: 96 }

/**
 * Groups events into writes. The opening and the ending are writes of their own. Each piece is one
 * write, with the events that open and close its block. Blocks without pieces are left out.
 */
export function toChunks(
  opening: object[],
  blocks: Block[],
  ending: object[],
  frameOf: (event: object) => Frame,
): Chunk[] {
  return [opening, ...blocks.flatMap(toWrites), ending].map(events => events.map(frameOf))
}

const toWrites = ({ open, deltas, close }: Block): object[][] =>
  deltas.map((delta, i) => [
    ...(i === 0 ? open : []),
    delta,
    ...(i === deltas.length - 1 ? close : []),
  ])

/** Converts an event to a frame without a name. */
export const toUnnamedFrame = (event: object): Frame => ({
  event: null,
  data: JSON.stringify(event),
})

/** Converts an event to a frame that is named after its type. */
export const toNamedFrame = (event: object): Frame => ({
  event: (event as { type: string }).type,
  data: JSON.stringify(event),
})

const SENTENCE =
  ' the gateway reads what a provider sends and says it again in the words that its client knows,'
const WORDS = SENTENCE.match(/ \S+/g) ?? []

/** Creates pieces of text, each about as long as a token. */
export const createWords = (count: number): string[] =>
  Array.from(
    { length: count },
    (_, i) => `${WORDS[i % WORDS.length]}${i % 10 === 9 ? ` ${i}` : ''}`,
  )

/** Creates the JSON of a tool's arguments, in pieces of a number of characters. */
export function createInput(pieces: number, characters: number): string[] {
  const [open, close] = ['{"city":"', '"}']
  const size = pieces * characters
  const city = 'Lisbon '.repeat(Math.ceil(size / 7)).slice(0, size - open.length - close.length)
  const text = `${open}${city}${close}`
  return Array.from({ length: pieces }, (_, i) => text.slice(i * characters, (i + 1) * characters))
}

/** The output of every stream of the benchmark: a thought, 200 pieces of text, a tool call. */
export const OUTPUT: ModelOutput = {
  thoughts: createWords(10),
  texts: createWords(200),
  inputs: createInput(5, 24),
}
