import { type Static, Type } from '@sinclair/typebox'
import { GatewayError, invalid } from '../../base/errors.ts'
import { type Json, readObjects } from '../../base/json.ts'
import { list, open, optional, SomeContent } from '../../base/schema-builders.ts'
import type { Answer } from '../../language/answer.ts'
import type { TextCall } from '../../language/call.ts'
import type { EmbeddingCall } from '../../language/embedding.ts'
import type { TextPart } from '../../language/part.ts'
import type { Actor } from '../../resources/actor.ts'
import type { AnswerHeader, BegunStream, CallContext, Dialect, Streaming } from './dialect.ts'
import { embeddings } from './embeddings.ts'
import { writeEvents } from './events.ts'
import { GEMINI_ERROR_FORMAT, renderGeminiError } from './gemini/error.ts'
import { toGeminiCall } from './gemini/request.ts'
import { GeminiAnswer } from './gemini/response.ts'
import { GeminiRequest } from './gemini/schema.ts'
import { withPresets } from './presets.ts'
import type { DialectWorld } from './world.ts'

/** How the values of a stream are written one after the other. */
interface Form {
  begin: string
  write(value: Json, isFirst: boolean): string
  end: string
  /** What is sent while the client waits: nothing to its parser. */
  wait: string
}

const SSE: Form = {
  begin: '',
  write: value => `data: ${JSON.stringify(value)}\n\n`,
  end: '',
  wait: ': waiting\n\n',
}

/** One JSON array, as without `alt=sse`. */
const ARRAY: Form = {
  begin: '[',
  write: (value, isFirst) => `${isFirst ? '' : ',\r\n'}${JSON.stringify(value)}`,
  end: ']',
  wait: '\n',
}

/** An answer as a stream of `GenerateContentResponse`: texts as they come, calls with the end. */
class GeminiStream implements BegunStream<'text'> {
  readonly #form: Form
  readonly #call: TextCall
  #heading: AnswerHeader
  #answer: GeminiAnswer | null = null
  #hasBegun = false
  #isFirst = true

  constructor(form: Form, heading: AnswerHeader, call: TextCall) {
    this.#form = form
    this.#heading = heading
    this.#call = call
  }

  renderKeepAlive = (): string => this.#begin() + this.#form.wait

  streamEvents(answer: Answer<'text'>): AsyncIterator<string> {
    this.#heading = answer
    return writeEvents(answer, this)
  }

  renderFailure = (error: GatewayError): string =>
    this.#begin() + this.#writeValue(renderGeminiError(error, this.#heading.id)) + this.#form.end

  /** Renders what one batch adds. */
  write(parts: TextPart[]): string {
    this.#answer ??= new GeminiAnswer(this.#heading, this.#call)
    const answer = this.#answer
    const shown = new Map<number, Json[]>()
    for (const part of parts) {
      const read = answer.read(part)
      if (read) shown.set(read.choice, [...(shown.get(read.choice) ?? []), ...read.parts])
    }
    if (answer.isOver) return this.#writeEnd(answer, shown)
    return shown.size === 0 ? this.#begin() : this.#begin() + this.#writeValue(answer.render(shown))
  }

  #writeEnd(answer: GeminiAnswer, shown: Map<number, Json[]>): string {
    if (answer.isWhole && answer.error === null)
      return this.#begin() + this.#writeValue(answer.renderEnd(shown)) + this.#form.end
    const said = shown.size === 0 ? '' : this.#begin() + this.#writeValue(answer.render(shown))
    return said + this.renderFailure(answer.error ?? BROKEN)
  }

  #writeValue(value: Json): string {
    const isFirst = this.#isFirst
    this.#isFirst = false
    return this.#form.write(value, isFirst)
  }

  #begin(): string {
    if (this.#hasBegun) return ''
    this.#hasBegun = true
    return this.#form.begin
  }
}

const BROKEN = new GatewayError('provider_unavailable', 'Provider returned error')

/** Collects an answer. Throws the error of one that failed. */
async function collectAnswer(answer: Answer<'text'>, call: TextCall): Promise<Json> {
  const read = new GeminiAnswer(answer, call)
  const shown = new Map<number, Json[]>()
  for (const batch of await answer.parts.collect())
    for (const part of batch) {
      const one = read.read(part)
      for (const shownPart of one?.parts ?? []) addPart(shown, one?.choice ?? 0, shownPart)
    }
  if (read.error) throw read.error
  if (!read.isWhole) throw BROKEN
  return read.renderEnd(shown)
}

/** Adds a part of an answer; texts of one kind that follow each other are one. */
function addPart(shown: Map<number, Json[]>, choice: number, part: Json): void {
  const parts = shown.get(choice) ?? []
  shown.set(choice, parts)
  const last = parts.at(-1)
  if (
    typeof last?.text === 'string' &&
    typeof part.text === 'string' &&
    last.thought === part.thought
  )
    last.text += part.text
  else parts.push(part)
}

const createStreaming = (form: Form, media_type?: string): Streaming<'text', GeminiRequest> => ({
  ...(media_type ? { media_type } : {}),
  begin: (heading, call) => new GeminiStream(form, heading, call),
  streamEvents: (answer, call) => new GeminiStream(form, answer, call).streamEvents(answer),
  renderFailure: (heading, error, call) =>
    new GeminiStream(form, heading, call).renderFailure(error),
})

/** The Gemini API: `generateContent`, and its streams. The path names the model. */
export const gemini: Dialect<'text', GeminiRequest> = {
  name: 'gemini',
  kind: 'text',
  path: '/v1beta/models/:model/generateContent',
  operation: { id: 'generateContent', tag: 'Gemini', summary: 'Answer a conversation of contents' },
  body: GeminiRequest,
  errorFormat: GEMINI_ERROR_FORMAT,
  showsRouting: true,
  toCall: withPresets(toGeminiCall),
  collectResponse: collectAnswer,
  streaming: createStreaming(SSE),
}

/** `streamGenerateContent`, by its `alt`: events, or one array. */
export const geminiStreams: Record<'sse' | 'json', Dialect<'text', GeminiRequest>> = {
  sse: { ...gemini, ...describeStream() },
  json: {
    ...gemini,
    ...describeStream(),
    streaming: createStreaming(ARRAY, 'application/json; charset=utf-8'),
  },
}

function describeStream(): Pick<Dialect<'text'>, 'path' | 'operation'> {
  return {
    path: '/v1beta/models/:model/streamGenerateContent',
    operation: {
      id: 'streamGenerateContent',
      tag: 'Gemini',
      summary: 'Answer a conversation of contents as a stream',
    },
  }
}

const EmbedContent = Type.Object(
  {
    content: Type.Object(
      { parts: list(Type.Object({ text: SomeContent }, open), { minItems: 1 }) },
      open,
    ),
    taskType: optional(Type.String({ maxLength: 64 })),
    outputDimensionality: optional(Type.Integer({ minimum: 1, maximum: 65_536 })),
  },
  open,
)
type EmbedContent = Static<typeof EmbedContent> & { model: string }

const BatchEmbedContents = Type.Object(
  { requests: list(EmbedContent, { minItems: 1, maxItems: 2_048 }) },
  open,
)
type BatchEmbedContents = Static<typeof BatchEmbedContents> & { model: string }

/** Google’s words for what vectors are for, where they are not OpenAI’s. */
const toInputType = (task: string | null | undefined) =>
  task == null ? {} : ({ input_type: task.toLowerCase() } as const)

const joinText = ({ content }: EmbedContent): string =>
  content.parts.map(({ text }) => text).join('\n')

/** `embedContent`: the vector of one content. */
export const geminiEmbedding: Dialect<'embedding', EmbedContent> = {
  name: 'embeddings',
  kind: 'embedding',
  path: '/v1beta/models/:model/embedContent',
  operation: { id: 'embedContent', tag: 'Gemini', summary: 'Turn a content into a vector' },
  body: EmbedContent,
  errorFormat: GEMINI_ERROR_FORMAT,
  toCall: (world, actor, body, context) => toVectors(world, actor, [body], body.model, context),
  async collectResponse(answer, call) {
    const [first] = await collectVectors(answer, call)
    return { embedding: first }
  },
}

/** `batchEmbedContents`: the vectors of several. */
export const geminiEmbeddings: Dialect<'embedding', BatchEmbedContents> = {
  name: 'embeddings',
  kind: 'embedding',
  path: '/v1beta/models/:model/batchEmbedContents',
  operation: {
    id: 'batchEmbedContents',
    tag: 'Gemini',
    summary: 'Turn several contents into vectors',
  },
  body: BatchEmbedContents,
  errorFormat: GEMINI_ERROR_FORMAT,
  toCall: (world, actor, { requests, model }, context) =>
    toVectors(world, actor, requests as EmbedContent[], model, context),
  collectResponse: async (answer, call) => ({ embeddings: await collectVectors(answer, call) }),
}

function toVectors(
  world: DialectWorld,
  actor: Actor,
  requests: EmbedContent[],
  model: string,
  context: CallContext,
): EmbeddingCall {
  const [{ taskType, outputDimensionality: dimensions } = {} as Partial<EmbedContent>, ...others] =
    requests
  if (others.some(one => one.taskType !== taskType || one.outputDimensionality !== dimensions))
    throw invalid('requests: expected one taskType and outputDimensionality for all', 'requests')
  const input = requests.map(joinText)
  const bound = dimensions == null ? {} : { dimensions }
  return embeddings.toCall(
    world,
    actor,
    { model, input, ...toInputType(taskType), ...bound },
    context,
  )
}

async function collectVectors(
  answer: Answer<'embedding'>,
  call: EmbeddingCall,
): Promise<{ values: unknown }[]> {
  const whole = (await embeddings.collectResponse(answer, call, {} as never)) as Json
  return readObjects(whole.data).map(({ embedding }) => ({ values: embedding }))
}
