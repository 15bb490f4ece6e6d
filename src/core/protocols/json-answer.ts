import type { TextCall } from '../language/call.ts'
import type { ResponseFormat } from '../language/params.ts'
import type { TextPart } from '../language/part.ts'
import type { Frame, Reader } from './protocol.ts'

/** A name for the tool whose input is the answer, which no tool of the caller's has. */
export function answerToolName({ tools }: TextCall): string {
  const taken = new Set(tools.map(tool => (tool.type === 'function' ? tool.name : '')))
  let name = 'json'
  while (taken.has(name)) name += '_answer'
  return name
}

/** The parts of a whole answer, whose text is the input of this tool, if it is asked for that way. */
export const answeredBy = (tool: string | null, parts: TextPart[]): TextPart[] =>
  tool === null ? parts : new JsonAnswer(tool).read(parts)

/** The reader of a streamed answer, whose text is the input of this tool, if it is asked for that way. */
export const answeringBy = (tool: string | null, reader: Reader<TextPart>): Reader<TextPart> =>
  tool === null ? reader : new JsonAnswerReader(reader, tool)

/** Words before the answer are few. Once there are more than this, they are the answer. */
const MOST_HELD = 64 * 1024

/**
 * Makes the input of one tool into the text of the answer, for providers that keep to a schema only in a tool's input: the call
 * disappears, and the answer ends with `stop` (translation trap 46). What the model says besides would break the JSON, so it is
 * held back and given only when the tool is not called.
 */
export class JsonAnswer {
  readonly #tool: string
  /** Which call the answer is, once it has begun; null while it has not. */
  #index: number | null = null
  /** All calls of the tool: only the first is the answer. */
  readonly #own = new Set<number>()
  #calls = 0
  #held: TextPart[] = []
  #size = 0
  #isText = false

  constructor(tool: string) {
    this.#tool = tool
  }

  /** The parts that these become. */
  read(parts: TextPart[]): TextPart[] {
    return parts.flatMap(part => this.#part(part))
  }

  #part(part: TextPart): TextPart[] {
    switch (part.type) {
      case 'text-delta':
      case 'annotation':
        return this.#beside(part)
      case 'tool-call-start':
        return this.#call(part)
      case 'tool-call-delta':
        return this.#input(part)
      case 'finish':
        return this.#finish(part)
      default:
        return [part]
    }
  }

  #beside(part: TextPart): TextPart[] {
    if (this.#isText) return [part]
    if (this.#index !== null) return []
    this.#held.push(part)
    this.#size += part.type === 'text-delta' ? part.text.length : 1
    return this.#size > MOST_HELD ? this.#released() : []
  }

  #released(): TextPart[] {
    const held = this.#held
    this.#held = []
    this.#isText = true
    return held
  }

  #call(part: Extract<TextPart, { type: 'tool-call-start' }>): TextPart[] {
    if (part.name !== this.#tool) {
      this.#calls += 1
      return [{ ...part, index: this.#shown(part.index) }]
    }
    this.#index ??= part.index
    this.#own.add(part.index)
    return []
  }

  // The calls after ours move up by one.
  #shown(index: number): number {
    let before = 0
    for (const own of this.#own) if (own < index) before += 1
    return index - before
  }

  #input(part: Extract<TextPart, { type: 'tool-call-delta' }>): TextPart[] {
    if (!this.#own.has(part.index)) return [{ ...part, index: this.#shown(part.index) }]
    return part.index === this.#index
      ? [{ type: 'text-delta', choice: part.choice, text: part.input }]
      : []
  }

  #finish(part: Extract<TextPart, { type: 'finish' }>): TextPart[] {
    const said = this.#index === null ? this.#released() : []
    const isAnswered = this.#index !== null && this.#calls === 0 && part.reason === 'tool_calls'
    return [...said, isAnswered ? { ...part, reason: 'stop' } : part]
  }
}

/** A reader whose answer is the input of this tool. */
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

  read(frame: Frame): TextPart[] {
    return this.#answer.read(this.#reader.read(frame))
  }

  end(): TextPart[] {
    return this.#answer.read(this.#reader.end?.() ?? [])
  }
}

/** The wish for JSON in words, for those who refuse `json_object` unless somebody has said the word (translation trap 45). */
export const ANSWER_IN_JSON = 'Answer in JSON.'

/** The wish for JSON in words, where nothing but words can be asked for. */
export const ONLY_JSON =
  'Answer with one JSON object and nothing else: no words around it, no code fence.'

/** Whether the conversation speaks of JSON. */
export const mentionsJson = ({ turns }: TextCall): boolean =>
  turns.some(({ blocks }) =>
    blocks.some(block => block.type === 'text' && /json/i.test(block.text)),
  )

type Schema = Extract<ResponseFormat, { json_schema: unknown }>['json_schema']

/** A schema in words, behind what is said of the answer. */
export const schemaInWords = (opening: string, { description, schema }: Partial<Schema>): string =>
  [
    opening,
    ...(description ? [description] : []),
    ...(schema ? [`It must fit this JSON Schema: ${JSON.stringify(schema)}`] : []),
  ].join('\n')
