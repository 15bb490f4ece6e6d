import { isObject, type Json, readObject, readObjects, readString } from '../../../base/json.ts'
import type { TextCall } from '../../../language/call.ts'
import type { Logprobs, TextPart } from '../../../language/part.ts'
import type { ReasoningDetail } from '../../../language/reasoning.ts'
import type { OwnEnds } from '../reader.ts'
import { type End, MAX_CALLS, readEnd } from '../reader.ts'
import { buildCallId } from '../tools.ts'
import { PartialArgs } from './calls.ts'
import { CitationReader } from './citations.ts'
import { buildMediaId, REASONING_FORMAT } from './messages.ts'

/** Arguments arrive for one call after another. At most this many calls may be open at once. */
const MAX_OPEN = 8

/** A call whose arguments are still arriving. */
interface OpenCall {
  value: Json
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
export class CandidateReader {
  readonly #choice: number
  readonly #context: AnswerContext
  readonly #citations: CitationReader
  readonly #openCalls: OpenCall[] = []
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
  #isThinking = false
  #finish: string | null = null
  /** Whether it has emitted anything. */
  hasOutput = false

  constructor(choice: number, context: AnswerContext) {
    this.#choice = choice
    this.#context = context
    this.#citations = new CitationReader(choice)
  }

  /** Whether it has reported a finish reason. */
  get hasEnded(): boolean {
    return this.#finish !== null
  }

  /** Returns the parts that one event, or the whole answer, contains for this alternative. */
  read(value: Json): TextPart[] {
    const parts: TextPart[] = []
    for (const part of readObjects(readObject(value, 'content').parts)) this.#readPart(part, parts)
    this.#readLogprobs(value, parts)
    parts.push(...this.#citations.readNew(value))
    this.#finish = readString(value.finishReason) ?? this.#finish
    this.hasOutput ||= parts.length > 0
    return parts
  }

  /**
   * Returns the parts that the end of the answer completes. A call with truncated arguments is
   * dropped: if it were run, it would do something else.
   */
  finish(): TextPart[] {
    const parts: TextPart[] = []
    this.#endServerCall('', parts)
    parts.push({ type: 'finish', choice: this.#choice, ...this.#readEnd(), native: this.#finish })
    return parts
  }

  // Google says STOP for tool calls too, even if they came in an earlier event.
  #readEnd(): End {
    const end = readEnd(this.#finish, this.#context.ownEnds) ?? { reason: 'stop' }
    return end.reason === 'stop' && this.#hasCalls ? { reason: 'tool_calls' } : end
  }

  // The order of precedence is that of Google's own client.
  #readPart(part: Json, parts: TextPart[]): void {
    const signature = readString(part.thoughtSignature) || null
    if (isObject(part.functionCall)) this.#readFunctionCall(part.functionCall, signature, parts)
    else if (isObject(part.inlineData)) this.#readInlineData(part, signature, parts)
    else if (isObject(part.executableCode))
      this.#beginServerCall('code_execution', part.executableCode, null, signature, parts)
    else if (isObject(part.codeExecutionResult))
      this.#endServerCall(JSON.stringify(part.codeExecutionResult), parts)
    else if (isObject(part.toolCall)) this.#readToolCall(part.toolCall, signature, parts)
    else if (isObject(part.toolResponse))
      this.#endServerCall(JSON.stringify(part.toolResponse.response ?? {}), parts)
    else if (part.thought === true) this.#readThought(readString(part.text) ?? '', signature, parts)
    else this.#readText(readString(part.text) ?? '', signature, parts)
  }

  #readThought(content: string, signature: string | null, parts: TextPart[]): void {
    if (content === '' && signature === null) return
    if (!this.#isThinking) this.#entries += 1
    this.#isThinking = signature === null
    const signed = signature === null ? {} : { signature }
    this.#emitReasoning(
      content,
      {
        type: 'reasoning.text',
        text: content,
        ...signed,
        format: REASONING_FORMAT,
        index: this.#entries - 1,
      },
      parts,
    )
  }

  #readText(content: string, signature: string | null, parts: TextPart[]): void {
    // If a tool stands for the answer, other text is not part of it.
    if (content !== '' && this.#context.answerTool === null) this.#emitText(content, parts)
    if (signature !== null) this.#emitSignature(signature, null, parts)
  }

  #emitText(content: string, parts: TextPart[]): void {
    this.#isThinking = false
    this.#citations.appendText(content)
    parts.push({ type: 'text-delta', choice: this.#choice, text: content })
  }

  /**
   * Emits the signature of a part that is not a thought, as an entry of its own. The entry names
   * the call that the signature belongs to.
   */
  #emitSignature(data: string, id: string | null, parts: TextPart[]): void {
    const belonging = id === null ? {} : { id }
    this.#emitReasoning(
      '',
      {
        type: 'reasoning.encrypted',
        data,
        ...belonging,
        format: REASONING_FORMAT,
        index: this.#nextEntry(),
      },
      parts,
    )
  }

  #emitReasoning(content: string, detail: ReasoningDetail, parts: TextPart[]): void {
    parts.push({ type: 'reasoning-delta', choice: this.#choice, text: content, details: [detail] })
  }

  #nextEntry(): number {
    this.#isThinking = false
    this.#entries += 1
    return this.#entries - 1
  }

  // A call arrives whole, or as a name whose arguments follow in pieces. The last piece says that
  // it is the last.
  #readFunctionCall(value: Json, signature: string | null, parts: TextPart[]): void {
    const { partialArgs, willContinue } = value
    const name = readString(value.name)
    if (name !== null && partialArgs == null && willContinue !== true) {
      this.#emitCall(value, renderInput(value.args), signature, parts)
      return
    }
    if (name !== null && this.#openCalls.length < MAX_OPEN)
      this.#openCalls.push({ value, signature, args: new PartialArgs() })
    const open = this.#openCalls.at(-1)
    if (!open) return
    open.args.add(partialArgs)
    if (
      willContinue !== true &&
      !readObjects(partialArgs).some(piece => piece.willContinue === true)
    )
      this.#closeCall(open, parts)
  }

  #closeCall({ value, signature, args }: OpenCall, parts: TextPart[]): void {
    this.#openCalls.pop()
    this.#emitCall(value, args.input, signature, parts)
  }

  #emitCall(value: Json, input: string, signature: string | null, parts: TextPart[]): void {
    const name = readString(value.name) ?? ''
    // The client never sees this call, so its signature could not come back either.
    if (name === this.#context.answerTool) this.#emitText(input, parts)
    else if (this.#calls < MAX_CALLS) this.#emitToolCall(value, input, signature, parts)
  }

  #emitToolCall(value: Json, input: string, signature: string | null, parts: TextPart[]): void {
    const index = this.#calls
    // Google's older models and Vertex send no ids.
    const id = readString(value.id) || buildCallId(this.#context.call, `${this.#choice}_${index}`)
    this.#calls += 1
    this.#hasCalls = true
    this.#isThinking = false
    parts.push({
      type: 'tool-call-start',
      choice: this.#choice,
      index,
      id,
      name: this.#context.getClientToolName(readString(value.name) ?? ''),
    })
    parts.push({ type: 'tool-call-delta', choice: this.#choice, index, input })
    if (signature !== null) this.#emitSignature(signature, id, parts)
  }

  #readInlineData(part: Json, signature: string | null, parts: TextPart[]): void {
    const { mimeType, data } = readObject(part, 'inlineData')
    const type = readString(mimeType) ?? ''
    // An image drawn while thinking is not part of the answer.
    if (part.thought === true || typeof data !== 'string') return
    this.#emitMedia(type, data, parts)
    if (signature !== null) this.#emitSignature(signature, buildMediaId(this.#media), parts)
    this.#media += 1
  }

  #emitMedia(type: string, data: string, parts: TextPart[]): void {
    this.#isThinking = false
    if (type.startsWith('audio/'))
      parts.push({ type: 'audio-delta', choice: this.#choice, audio: { data } })
    else if (type.startsWith('image/'))
      parts.push({ type: 'image', choice: this.#choice, url: `data:${type};base64,${data}` })
  }

  #readToolCall({ toolType, id, args }: Json, signature: string | null, parts: TextPart[]): void {
    this.#beginServerCall(
      readString(toolType) ?? '',
      isObject(args) ? args : {},
      readString(id),
      signature,
      parts,
    )
  }

  #beginServerCall(
    name: string,
    value: Json,
    id: string | null,
    signature: string | null,
    parts: TextPart[],
  ): void {
    this.#endServerCall('', parts)
    this.#serverCall = {
      name,
      id: id || `server_${this.#choice}_${this.#entries}`,
      arguments: JSON.stringify(value),
    }
    if (signature !== null) this.#emitSignature(signature, this.#serverCall.id, parts)
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
      format: REASONING_FORMAT,
      index: this.#nextEntry(),
    }
    this.#emitReasoning('', { type: 'reasoning.server_tool_call', ...entry }, parts)
  }

  #readLogprobs(value: Json, parts: TextPart[]): void {
    const logprobs = readLogprobs(value.logprobsResult)
    if (!logprobs) return
    const at = parts.findIndex(part => part.type === 'text-delta')
    const content = parts[at]
    if (content?.type === 'text-delta') parts[at] = { ...content, logprobs }
    else parts.push({ type: 'text-delta', choice: this.#choice, text: '', logprobs })
  }
}

const renderInput = (args: unknown): string =>
  typeof args === 'string' ? args : JSON.stringify(args ?? {})

/**
 * Returns Google's `logprobsResult` as the chat API's `{ content }`: each chosen token with its
 * alternatives. Undefined if there is none.
 */
function readLogprobs(logprobs: unknown): Logprobs | undefined {
  if (!isObject(logprobs) || !Array.isArray(logprobs.chosenCandidates)) return undefined
  const alternatives = Array.isArray(logprobs.topCandidates) ? logprobs.topCandidates : []
  const content = logprobs.chosenCandidates.map((chosen, i) => ({
    ...toTokenLogprob(isObject(chosen) ? chosen : {}),
    top_logprobs: readObjects(isObject(alternatives[i]) ? alternatives[i].candidates : []).map(
      toTokenLogprob,
    ),
  }))
  return { content }
}

const toTokenLogprob = ({ token, logProbability }: Json) => {
  const chosenText = readString(token) ?? ''
  return {
    token: chosenText,
    logprob: typeof logProbability === 'number' ? logProbability : 0,
    bytes: [...new TextEncoder().encode(chosenText)],
  }
}

/** What reading an answer depends on. */
export interface AnswerContext {
  call: TextCall
  /** Returns the client's name of a tool. */
  getClientToolName: (name: string) => string
  /** The name of the tool whose input is the answer, or null if none is used. */
  answerTool: string | null
  /** The finish reasons of the provider's own words. */
  ownEnds?: OwnEnds
}
