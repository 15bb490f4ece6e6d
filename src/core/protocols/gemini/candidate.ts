import { isObject, type Json, member, objects, own, text } from '../../kernel/json.ts'
import type { FinishReason, Logprobs, TextPart } from '../../language/part.ts'
import type { ReasoningDetail } from '../../language/reasoning.ts'
import { MOST_CALLS } from '../reader.ts'
import { ownId } from '../tools.ts'
import { PartialArgs } from './calls.ts'
import { Citations } from './citations.ts'
import { FORMAT, mediaId } from './messages.ts'
import type { Reading } from './reader.ts'

/** Arguments arrive for one call after another. At most this many calls may be open at once. */
const MOST_OPEN = 8

/** A call whose arguments are still arriving. */
interface OpenCall {
  given: Json
  signature: string | null
  args: PartialArgs
}

/** A tool run by Google itself whose result is still to come. */
interface ServerCall {
  name: string
  id: string
  arguments: string
}

/** Reads one alternative of an answer, with one small method for each kind of part. */
export class Candidate {
  readonly #choice: number
  readonly #reading: Reading
  readonly #citations: Citations
  readonly #open: OpenCall[] = []
  #serverCall: ServerCall | null = null
  #calls = 0
  #media = 0
  /** Whether one of the client's tools was called. */
  #hasCalls = false
  /**
   * The number of reasoning entries. A thought continues until its signature or another kind of
   * part arrives.
   */
  #entries = 0
  #thinking = false
  #finish: string | null = null
  /** Whether it has emitted anything. */
  hasSpoken = false

  constructor(choice: number, reading: Reading) {
    this.#choice = choice
    this.#reading = reading
    this.#citations = new Citations(choice)
  }

  /** Whether it has reported a finish reason. */
  get hasEnded(): boolean {
    return this.#finish !== null
  }

  /** Returns the parts that one event, or the whole answer, contains for this alternative. */
  read(given: Json): TextPart[] {
    const parts: TextPart[] = []
    for (const part of objects(member(given, 'content').parts)) this.#part(part, parts)
    this.#logprobs(given, parts)
    parts.push(...this.#citations.of(given))
    this.#finish = text(given.finishReason) ?? this.#finish
    this.hasSpoken ||= parts.length > 0
    return parts
  }

  /**
   * Returns the parts that the end of the answer completes. A call with truncated arguments is
   * dropped: if it were run, it would do something else.
   */
  end(): TextPart[] {
    const parts: TextPart[] = []
    this.#endServerCall('', parts)
    const reason = finishReason(this.#finish ?? 'STOP', this.#hasCalls)
    parts.push({ type: 'finish', choice: this.#choice, reason, native: this.#finish })
    return parts
  }

  // The order of precedence is that of Google's own client.
  #part(part: Json, parts: TextPart[]): void {
    const signature = text(part.thoughtSignature) || null
    if (isObject(part.functionCall)) this.#functionCall(part.functionCall, signature, parts)
    else if (isObject(part.inlineData)) this.#inlineData(part, signature, parts)
    else if (isObject(part.executableCode))
      this.#beginServerCall('code_execution', part.executableCode, null, signature, parts)
    else if (isObject(part.codeExecutionResult))
      this.#endServerCall(JSON.stringify(part.codeExecutionResult), parts)
    else if (isObject(part.toolCall)) this.#toolCall(part.toolCall, signature, parts)
    else if (isObject(part.toolResponse))
      this.#endServerCall(JSON.stringify(part.toolResponse.response ?? {}), parts)
    else if (part.thought === true) this.#thought(text(part.text) ?? '', signature, parts)
    else this.#text(text(part.text) ?? '', signature, parts)
  }

  #thought(said: string, signature: string | null, parts: TextPart[]): void {
    if (said === '' && signature === null) return
    if (!this.#thinking) this.#entries += 1
    this.#thinking = signature === null
    const signed = signature === null ? {} : { signature }
    this.#reasoning(
      said,
      { type: 'reasoning.text', text: said, ...signed, format: FORMAT, index: this.#entries - 1 },
      parts,
    )
  }

  #text(said: string, signature: string | null, parts: TextPart[]): void {
    // If a tool stands for the answer, other text is not part of it.
    if (said !== '' && this.#reading.answerTool === null) this.#say(said, parts)
    if (signature !== null) this.#sign(signature, null, parts)
  }

  #say(said: string, parts: TextPart[]): void {
    this.#thinking = false
    this.#citations.said(said)
    parts.push({ type: 'text-delta', choice: this.#choice, text: said })
  }

  /**
   * Emits the signature of a part that is not a thought, as an entry of its own. The entry names
   * the call that the signature belongs to.
   */
  #sign(data: string, id: string | null, parts: TextPart[]): void {
    const belonging = id === null ? {} : { id }
    this.#reasoning(
      '',
      { type: 'reasoning.encrypted', data, ...belonging, format: FORMAT, index: this.#nextEntry() },
      parts,
    )
  }

  #reasoning(said: string, detail: ReasoningDetail, parts: TextPart[]): void {
    parts.push({ type: 'reasoning-delta', choice: this.#choice, text: said, details: [detail] })
  }

  #nextEntry(): number {
    this.#thinking = false
    this.#entries += 1
    return this.#entries - 1
  }

  // A call arrives whole, or as a name whose arguments follow in pieces. The last piece says that
  // it is the last.
  #functionCall(given: Json, signature: string | null, parts: TextPart[]): void {
    const { partialArgs, willContinue } = given
    const name = text(given.name)
    if (name !== null && partialArgs == null && willContinue !== true) {
      this.#call(given, inputOf(given.args), signature, parts)
      return
    }
    if (name !== null && this.#open.length < MOST_OPEN)
      this.#open.push({ given, signature, args: new PartialArgs() })
    const open = this.#open.at(-1)
    if (!open) return
    open.args.add(partialArgs)
    if (willContinue !== true && !objects(partialArgs).some(piece => piece.willContinue === true))
      this.#close(open, parts)
  }

  #close({ given, signature, args }: OpenCall, parts: TextPart[]): void {
    this.#open.pop()
    this.#call(given, args.input, signature, parts)
  }

  #call(given: Json, input: string, signature: string | null, parts: TextPart[]): void {
    const name = text(given.name) ?? ''
    // The client never sees this call, so its signature could not come back either.
    if (name === this.#reading.answerTool) this.#say(input, parts)
    else if (this.#calls < MOST_CALLS) this.#callTool(given, input, signature, parts)
  }

  #callTool(given: Json, input: string, signature: string | null, parts: TextPart[]): void {
    const index = this.#calls
    // Google's older models and Vertex send no ids.
    const id = text(given.id) || ownId(this.#reading.call, `${this.#choice}_${index}`)
    this.#calls += 1
    this.#hasCalls = true
    this.#thinking = false
    parts.push({
      type: 'tool-call-start',
      choice: this.#choice,
      index,
      id,
      name: this.#reading.given(text(given.name) ?? ''),
    })
    parts.push({ type: 'tool-call-delta', choice: this.#choice, index, input })
    if (signature !== null) this.#sign(signature, id, parts)
  }

  #inlineData(part: Json, signature: string | null, parts: TextPart[]): void {
    const { mimeType, data } = member(part, 'inlineData')
    const type = text(mimeType) ?? ''
    // An image drawn while thinking is not part of the answer.
    if (part.thought === true || typeof data !== 'string') return
    this.#give(type, data, parts)
    if (signature !== null) this.#sign(signature, mediaId(this.#media), parts)
    this.#media += 1
  }

  #give(type: string, data: string, parts: TextPart[]): void {
    this.#thinking = false
    if (type.startsWith('audio/'))
      parts.push({ type: 'audio-delta', choice: this.#choice, audio: { data } })
    else if (type.startsWith('image/'))
      parts.push({ type: 'image', choice: this.#choice, url: `data:${type};base64,${data}` })
  }

  #toolCall({ toolType, id, args }: Json, signature: string | null, parts: TextPart[]): void {
    this.#beginServerCall(
      text(toolType) ?? '',
      isObject(args) ? args : {},
      text(id),
      signature,
      parts,
    )
  }

  #beginServerCall(
    name: string,
    given: Json,
    id: string | null,
    signature: string | null,
    parts: TextPart[],
  ): void {
    this.#endServerCall('', parts)
    this.#serverCall = {
      name,
      id: id || `server_${this.#choice}_${this.#entries}`,
      arguments: JSON.stringify(given),
    }
    if (signature !== null) this.#sign(signature, this.#serverCall.id, parts)
  }

  // A tool that Google ran itself is neither a call of the client's nor text. It becomes a
  // reasoning entry, from which it is sent back.
  #endServerCall(result: string, parts: TextPart[]): void {
    if (!this.#serverCall) return
    const { name, id, arguments: input } = this.#serverCall
    this.#serverCall = null
    const entry = {
      tool_name: name,
      tool_call_id: id,
      arguments: input,
      result,
      format: FORMAT,
      index: this.#nextEntry(),
    }
    this.#reasoning('', { type: 'reasoning.server_tool_call', ...entry }, parts)
  }

  #logprobs(given: Json, parts: TextPart[]): void {
    const logprobs = logprobsOf(given.logprobsResult)
    if (!logprobs) return
    const at = parts.findIndex(part => part.type === 'text-delta')
    const said = parts[at]
    if (said?.type === 'text-delta') parts[at] = { ...said, logprobs }
    else parts.push({ type: 'text-delta', choice: this.#choice, text: '', logprobs })
  }
}

const inputOf = (args: unknown): string =>
  typeof args === 'string' ? args : JSON.stringify(args ?? {})

/**
 * Returns Google's `logprobsResult` as the chat API's `{ content }`: each chosen token with its
 * alternatives. Undefined if there is none.
 */
function logprobsOf(given: unknown): Logprobs | undefined {
  if (!isObject(given) || !Array.isArray(given.chosenCandidates)) return undefined
  const alternatives = Array.isArray(given.topCandidates) ? given.topCandidates : []
  const content = given.chosenCandidates.map((chosen, i) => ({
    ...tokenOf(isObject(chosen) ? chosen : {}),
    top_logprobs: objects(isObject(alternatives[i]) ? alternatives[i].candidates : []).map(tokenOf),
  }))
  return { content }
}

const tokenOf = ({ token, logProbability }: Json) => {
  const said = text(token) ?? ''
  return {
    token: said,
    logprob: typeof logProbability === 'number' ? logProbability : 0,
    bytes: [...new TextEncoder().encode(said)],
  }
}

/**
 * Google's finish reasons and its reasons for blocking a prompt (`Candidate.FinishReason`,
 * `PromptFeedback.BlockReason`).
 */
const REASONS: Record<string, FinishReason> = {
  STOP: 'stop',
  // Some servers with Google's API send this.
  FUNCTION_CALL: 'tool_calls',
  MAX_TOKENS: 'length',
  // A very long answer stops at the limit of one request.
  CONTINUATION: 'length',
  SAFETY: 'content_filter',
  RECITATION: 'content_filter',
  BLOCKLIST: 'content_filter',
  PROHIBITED_CONTENT: 'content_filter',
  SPII: 'content_filter',
  MODEL_ARMOR: 'content_filter',
  IMAGE_SAFETY: 'content_filter',
  IMAGE_PROHIBITED_CONTENT: 'content_filter',
  IMAGE_RECITATION: 'content_filter',
}

/**
 * Returns the finish reason for Google's. Google says STOP for tool calls too, even if they came in
 * an earlier event. Any other reason is a failure of the model (MALFORMED_FUNCTION_CALL,
 * UNEXPECTED_TOOL_CALL, LANGUAGE, OTHER), and so is an unknown one.
 */
function finishReason(native: string, hasCalls: boolean): FinishReason {
  if (native === 'STOP' && hasCalls) return 'tool_calls'
  return own(REASONS, native) ?? 'error'
}
