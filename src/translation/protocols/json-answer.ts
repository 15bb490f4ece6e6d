import type { GatewayError } from '../../base/errors.ts'
import type { TextCall } from '../../language/call.ts'
import type { ResponseFormat } from '../../language/params.ts'
import type { TextPart } from '../../language/part.ts'
import type { Frame, Reader } from './protocol.ts'

/** Returns a name for the tool whose input is the answer. None of the caller's tools has it. */
export function pickAnswerToolName({ tools }: TextCall): string {
  const taken = new Set(tools.map(tool => (tool.type === 'function' ? tool.name : '')))
  let name = 'json'
  while (taken.has(name)) name += '_answer'
  return name
}

/** Returns the parts of a whole answer. With a tool, that tool's input becomes the text. */
export const readJsonAnswer = (tool: string | null, parts: TextPart[]): TextPart[] =>
  tool === null ? parts : new JsonAnswer(tool).read(parts)

/** Returns the reader of a streamed answer. With a tool, that tool's input becomes the text. */
export const createJsonAnswerReader = (
  tool: string | null,
  reader: Reader<TextPart>,
): Reader<TextPart> => (tool === null ? reader : new JsonAnswerReader(reader, tool))

/** A model says little before it calls the tool. Text longer than this is the answer itself. */
const MAX_HELD = 64 * 1024

/**
 * Turns the input of one tool into the text of the answer, for providers that follow a schema only
 * in a tool's input. The call disappears, and the answer ends with `stop` (translation trap 46).
 * Any other text would break the JSON, so it is held back and returned only if the tool is not
 * called.
 */
export class JsonAnswer {
  readonly #tool: string
  /** The index of the call that is the answer; null until that call begins. */
  #index: number | null = null
  /** The indexes of all calls of the tool. Only the first call is the answer. */
  readonly #ownIndexes = new Set<number>()
  #otherCalls = 0
  #held: TextPart[] = []
  #size = 0
  #isText = false

  constructor(tool: string) {
    this.#tool = tool
  }

  /** Returns the parts that the caller gets for these. */
  read(parts: TextPart[]): TextPart[] {
    return parts.flatMap(part => this.#readPart(part))
  }

  #readPart(part: TextPart): TextPart[] {
    switch (part.type) {
      case 'text-delta':
      case 'annotation':
        return this.#holdBack(part)
      case 'tool-call-start':
        return this.#readCallStart(part)
      case 'tool-call-delta':
        return this.#readCallDelta(part)
      case 'finish':
        return this.#readFinish(part)
      default:
        return [part]
    }
  }

  #holdBack(part: TextPart): TextPart[] {
    if (this.#isText) return [part]
    if (this.#index !== null) return []
    this.#held.push(part)
    this.#size += part.type === 'text-delta' ? part.text.length : 1
    return this.#size > MAX_HELD ? this.#releaseHeld() : []
  }

  #releaseHeld(): TextPart[] {
    const held = this.#held
    this.#held = []
    this.#isText = true
    return held
  }

  #readCallStart(part: Extract<TextPart, { type: 'tool-call-start' }>): TextPart[] {
    if (part.name !== this.#tool) {
      this.#otherCalls += 1
      return [{ ...part, index: this.#shiftIndex(part.index) }]
    }
    this.#index ??= part.index
    this.#ownIndexes.add(part.index)
    return []
  }

  // Calls after those of the answer tool move up.
  #shiftIndex(index: number): number {
    let before = 0
    for (const own of this.#ownIndexes) if (own < index) before += 1
    return index - before
  }

  #readCallDelta(part: Extract<TextPart, { type: 'tool-call-delta' }>): TextPart[] {
    if (!this.#ownIndexes.has(part.index)) return [{ ...part, index: this.#shiftIndex(part.index) }]
    return part.index === this.#index
      ? [{ type: 'text-delta', choice: part.choice, text: part.input }]
      : []
  }

  #readFinish(part: Extract<TextPart, { type: 'finish' }>): TextPart[] {
    const leading = this.#index === null ? this.#releaseHeld() : []
    const isAnswered =
      this.#index !== null && this.#otherCalls === 0 && part.reason === 'tool_calls'
    return [...leading, isAnswered ? { ...part, reason: 'stop' } : part]
  }
}

/** Reads an answer whose text is the input of one tool. */
export class JsonAnswerReader implements Reader<TextPart> {
  readonly #reader: Reader<TextPart>
  readonly #answer: JsonAnswer

  constructor(reader: Reader<TextPart>, tool: string) {
    this.#reader = reader
    this.#answer = new JsonAnswer(tool)
  }

  get complete(): boolean {
    return this.#reader.complete
  }

  get failure(): GatewayError | null {
    return this.#reader.failure ?? null
  }

  read(frame: Frame): TextPart[] {
    return this.#answer.read(this.#reader.read(frame))
  }

  end(isFramed = true): TextPart[] {
    return this.#answer.read(this.#reader.end?.(isFramed) ?? [])
  }
}

/**
 * The instruction for providers that refuse `json_object` unless the conversation mentions JSON
 * (translation trap 45).
 */
export const ANSWER_IN_JSON = 'Answer in JSON.'

/** The instruction for providers that have no parameter for JSON. */
export const ONLY_JSON =
  'Answer with one JSON object and nothing else: no words around it, no code fence.'

/** Whether any text of the conversation mentions JSON. */
export const mentionsJson = ({ messages }: TextCall): boolean =>
  messages.some(({ blocks }) =>
    blocks.some(block => block.type === 'text' && /json/i.test(block.text)),
  )

type Schema = Extract<ResponseFormat, { json_schema: unknown }>['json_schema']

/** Returns an instruction that describes a schema after the opening sentence. */
export const buildSchemaInstruction = (
  opening: string,
  { description, schema }: Partial<Schema>,
): string =>
  [
    opening,
    ...(description ? [description] : []),
    ...(schema ? [`It must fit this JSON Schema: ${JSON.stringify(schema)}`] : []),
  ].join('\n')
