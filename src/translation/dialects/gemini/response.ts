import { readDataUrl } from '../../../base/data-url.ts'
import type { GatewayError } from '../../../base/errors.ts'
import {
  isObject,
  type Json,
  parseCount,
  parseObject,
  readObject,
  readObjects,
  readString,
} from '../../../base/json.ts'
import type { TextCall } from '../../../language/call.ts'
import type { FinishReason, ReceiptPart, TextPart } from '../../../language/part.ts'
import { appendDetail, type ReasoningDetail } from '../../../language/reasoning.ts'
import { countInputTokens, type Usage } from '../../../language/usage.ts'
import { readEnd } from '../../protocols/reader.ts'
import type { AnswerHeader } from '../dialect.ts'
import { wrapInvalidInput } from '../messages/block-queue.ts'
import { packDetails } from './signature.ts'

/** Google’s word for why an answer ended. */
const FINISHES: Record<FinishReason, string> = {
  stop: 'STOP',
  tool_calls: 'STOP',
  length: 'MAX_TOKENS',
  content_filter: 'SAFETY',
  error: 'OTHER',
}

/** Google's words that say more than these. */
const GOOGLES = new Set([
  ...[
    'RECITATION',
    'BLOCKLIST',
    'PROHIBITED_CONTENT',
    'SPII',
    'LANGUAGE',
    'MALFORMED_FUNCTION_CALL',
  ],
  ...['IMAGE_SAFETY', 'IMAGE_PROHIBITED_CONTENT', 'IMAGE_RECITATION', 'IMAGE_OTHER', 'NO_IMAGE'],
  ...['UNEXPECTED_TOOL_CALL', 'TOO_MANY_TOOL_CALLS', 'MISSING_THOUGHT_SIGNATURE'],
])

/** The provider's own word stays where it is one of Google's for that reason. */
const nameFinish = ({ reason, native }: Extract<TextPart, { type: 'finish' }>): string =>
  native !== null && GOOGLES.has(native) && readEnd(native)?.reason === reason
    ? native
    : FINISHES[reason]

/** One alternative of an answer while it is read. */
interface Candidate {
  calls: { index: number; id: string; name: string; input: string }[]
  details: ReasoningDetail[]
  /** What it says, in which sources are cited by where they stand. */
  said: string
  sources: Sources
  /** OpenAI's entries, if the call asks for them. */
  logprobs: Json[]
  refused: boolean
  finish: string | null
}

/**
 * An answer as `GenerateContentResponse` has it. Texts are shown as they come; calls are shown whole,
 * with the signature of all that its provider wants back.
 */
export class GeminiAnswer {
  readonly #heading: AnswerHeader
  readonly #showsThoughts: boolean
  readonly #candidates = new Map<number, Candidate>()
  #receipt: ReceiptPart | null = null
  /** The error that the answer broke off with. */
  error: GatewayError | null = null

  constructor(heading: AnswerHeader, { params }: TextCall) {
    this.#heading = heading
    this.#showsThoughts = params.reasoning !== undefined && !params.reasoning.exclude
  }

  /** Whether every alternative has ended, and the call is on record. */
  get isWhole(): boolean {
    const all = [...this.#candidates.values()]
    return this.#receipt !== null && all.length > 0 && all.every(({ finish }) => finish !== null)
  }

  /** Whether the call is on record: nothing follows. */
  get isOver(): boolean {
    return this.#receipt !== null
  }

  /** Reads a part. Returns the parts of a content that it shows, and of which alternative. */
  read(part: TextPart): { choice: number; parts: Json[] } | null {
    if (part.type === 'error') this.error ??= part.error
    if (part.type === 'receipt') this.#receipt = part
    if (!('choice' in part)) return null
    const candidate = this.#find(part.choice)
    const parts = readPart(part, candidate, this.#showsThoughts)
    return parts.length === 0 ? null : { choice: part.choice, parts }
  }

  #find(choice: number): Candidate {
    const known = this.#candidates.get(choice)
    if (known) return known
    const candidate: Candidate = {
      calls: [],
      details: [],
      said: '',
      sources: { chunks: [], places: new Map(), cited: [] },
      logprobs: [],
      refused: false,
      finish: null,
    }
    this.#candidates.set(choice, candidate)
    return candidate
  }

  /** Renders what has been shown of some alternatives. */
  render(shown: Map<number, Json[]>): Json {
    const candidates = [...shown].map(([index, parts]) => ({
      content: { role: 'model', parts },
      index,
    }))
    return { candidates, ...this.#renderHeading() }
  }

  /** Renders the end: calls, why each alternative ended, its sources, and what was used. */
  renderEnd(shown = new Map<number, Json[]>()): Json {
    const receipt = this.#receipt
    return {
      candidates: [...this.#candidates].map(([index, candidate]) =>
        renderEnding(index, candidate, shown.get(index) ?? []),
      ),
      ...(receipt ? { usageMetadata: renderUsage(receipt.receipt.usage) } : {}),
      ...this.#renderHeading(),
      ...receipt?.siblingFields,
    }
  }

  #renderHeading(): Json {
    const { id, model, created } = this.#heading
    return {
      modelVersion: model,
      responseId: id,
      createTime: new Date(created * 1000).toISOString(),
    }
  }
}

function readPart(
  part: Extract<TextPart, { choice: number }>,
  candidate: Candidate,
  showsThoughts: boolean,
): Json[] {
  switch (part.type) {
    case 'refusal-delta':
      candidate.refused = true
      candidate.said += part.text
      return [{ text: part.text }]
    case 'text-delta':
      for (const entry of readObjects(part.logprobs?.content)) candidate.logprobs.push(entry)
      candidate.said += part.text
      return part.text === '' ? [] : [{ text: part.text }]
    case 'reasoning-delta':
      for (const detail of part.details) appendDetail(candidate.details, detail)
      return [
        ...(showsThoughts && part.text !== '' ? [{ text: part.text, thought: true }] : []),
        ...part.details.flatMap(renderServerWork),
      ]
    case 'tool-call-start':
      candidate.calls.push({ index: part.index, id: part.id, name: part.name, input: '' })
      return []
    case 'tool-call-delta': {
      const call = candidate.calls.findLast(({ index }) => index === part.index)
      if (call) call.input += part.input
      return []
    }
    case 'image':
      return [renderPicture(part.url)]
    case 'audio-delta':
      return part.audio.data === undefined
        ? []
        : [{ inlineData: { mimeType: 'audio/pcm', data: part.audio.data } }]
    case 'annotation':
      addSource(candidate.sources, part.annotation)
      return []
    case 'finish':
      candidate.finish ??= nameFinish(part)
      return []
    default:
      return []
  }
}

/** Shows what Google's own tools did, as Google does. */
function renderServerWork(detail: ReasoningDetail): Json[] {
  if (detail.type !== 'reasoning.server_tool_call') return []
  const { tool_name: toolType, tool_call_id: id } = detail
  const args = parseObject(readString(detail.arguments) ?? '') ?? {}
  const outcome = parseObject(readString(detail.result) ?? '')
  if (toolType === 'code_execution')
    return [{ executableCode: args }, ...(outcome ? [{ codeExecutionResult: outcome }] : [])]
  const response = outcome ? [{ toolResponse: { toolType, id, response: outcome } }] : []
  return [{ toolCall: { toolType, id, args } }, ...response]
}

/** A picture whose bytes cannot be read is shown as its provider gave it. */
function renderPicture(url: string): Json {
  const media = readDataUrl(url)
  return media
    ? { inlineData: { mimeType: media.media_type, data: media.data } }
    : { fileData: { mimeType: 'image/png', fileUri: url } }
}

/** The sources of an answer, each once, and what of its text they support. */
interface Sources {
  chunks: Json[]
  /** Where each stands among them, by its address. */
  places: Map<string, number>
  cited: { place: number; start: number; end: number }[]
}

function addSource({ chunks, places, cited }: Sources, annotation: unknown): void {
  const source = isObject(annotation) ? readObject(annotation, 'url_citation') : {}
  const uri = readString(source.url)
  if (uri === null) return
  const place = places.get(uri) ?? chunks.length
  places.set(uri, place)
  if (place === chunks.length) chunks.push({ web: { uri, title: readString(source.title) ?? uri } })
  const [start, end] = [parseCount(source.start_index), parseCount(source.end_index)]
  if (start !== undefined && end !== undefined && end > start) cited.push({ place, start, end })
}

/** The most characters of an answer that are said again beside their sources. */
const MAX_REPEATED = 1024 * 1024

function renderGrounding({ chunks, cited }: Sources, said: string): Json {
  const countBytes = createByteCounter(said, cited)
  let repeated = 0
  const groundingSupports = cited.flatMap(({ place, start, end }) => {
    repeated += end - start
    if (end > said.length || repeated > MAX_REPEATED) return []
    const segment = { startIndex: countBytes(start), endIndex: countBytes(end) }
    return {
      segment: { ...segment, text: said.slice(start, end) },
      groundingChunkIndices: [place],
    }
  })
  return { groundingChunks: chunks, ...(groundingSupports.length > 0 ? { groundingSupports } : {}) }
}

/** Google counts places in bytes: those of all are counted in one pass. */
function createByteCounter(said: string, cited: Sources['cited']): (place: number) => number {
  const places = cited.flatMap(({ start, end }) => [start, end]).sort((one, other) => one - other)
  const bytes = new Map<number, number>()
  let [before, sum] = [0, 0]
  for (const place of places) {
    sum += Buffer.byteLength(said.slice(before, place))
    before = place
    bytes.set(place, sum)
  }
  return place => bytes.get(place) ?? 0
}

function renderEnding(
  index: number,
  { calls, details, said, sources, logprobs, refused, finish }: Candidate,
  shown: Json[],
): Json {
  const parts = [...shown, ...renderCalls(calls, details)]
  return {
    content: { role: 'model', parts },
    ...(finish === null ? {} : { finishReason: refused ? FINISHES.content_filter : finish }),
    index,
    ...(logprobs.length > 0 ? renderLogprobs(logprobs) : {}),
    ...(sources.chunks.length > 0 ? { groundingMetadata: renderGrounding(sources, said) } : {}),
  }
}

/** Each token that was chosen, and the alternatives at its place if there are any. */
function renderLogprobs(entries: Json[]): Json {
  const chosenCandidates = entries.map(toCandidate)
  const topCandidates = entries.map(({ top_logprobs }) => ({
    candidates: readObjects(top_logprobs).map(toCandidate),
  }))
  const sum = chosenCandidates.reduce((sum, { logProbability }) => sum + logProbability, 0)
  const hasOthers = topCandidates.some(({ candidates }) => candidates.length > 0)
  return {
    avgLogprobs: sum / entries.length,
    logprobsResult: { chosenCandidates, ...(hasOthers ? { topCandidates } : {}) },
  }
}

const toCandidate = ({ token, logprob }: Json) => ({
  token: readString(token) ?? '',
  logProbability: typeof logprob === 'number' ? logprob : 0,
})

/** What a provider wants back is on the first call, or on an empty text where there is none. */
function renderCalls(calls: Candidate['calls'], details: ReasoningDetail[]): Json[] {
  const ids = new Set<unknown>(calls.map(({ id }) => id))
  const ofTurn = details.filter(({ id }) => !ids.has(id))
  if (calls.length === 0)
    return ofTurn.some(isWanted) ? [{ text: '', thoughtSignature: packDetails(ofTurn, null) }] : []
  return calls.map(({ id, name, input }, i) => {
    const own = [...(i === 0 ? ofTurn : []), ...details.filter(detail => detail.id === id)]
    return {
      functionCall: { id, name, args: readArguments(input) },
      ...(own.some(isWanted) ? { thoughtSignature: packDetails(own, id) } : {}),
    }
  })
}

/** Whether a provider wants an entry back: it has more than words. */
const isWanted = ({ type, signature, data }: ReasoningDetail): boolean =>
  typeof signature === 'string' || typeof data === 'string' || type === 'reasoning.server_tool_call'

const readArguments = (input: string): Json =>
  input.trim() === '' ? {} : (parseObject(input) ?? wrapInvalidInput(input))

/** Google counts thoughts beside the answer, and what a cache had among the prompt. */
function renderUsage(usage: Usage): Json {
  const { input, output } = usage
  const prompt = countInputTokens(usage)
  const answer = output.text + output.audio + output.image
  return {
    promptTokenCount: prompt,
    candidatesTokenCount: answer,
    ...(output.reasoning > 0 ? { thoughtsTokenCount: output.reasoning } : {}),
    ...(input.cache_read > 0 ? { cachedContentTokenCount: input.cache_read } : {}),
    totalTokenCount: prompt + answer + output.reasoning,
  }
}
