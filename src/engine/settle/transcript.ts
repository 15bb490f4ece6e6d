import type { Block, Message } from '../../language/message.ts'
import type { AnswerPart, Kind } from '../../language/work.ts'
import { isInZdrGroup } from '../../limits/zdr.ts'
import type { Generation, StoredTranscript } from '../../observability/generations/store.ts'
import {
  LARGEST_TRANSCRIPT,
  sealTranscript,
  type Transcript,
  type TranscriptOutput,
} from '../../observability/transcripts.ts'
import { kinds } from '../kinds.ts'
import type { Run } from '../run.ts'
import type { InferenceWorld } from '../world.ts'

/** Gathers the texts of an answer as its client sees them. */
class TranscriptRecorder {
  readonly #texts: string[] = []
  readonly #toolCalls = new Map<string, { id: string; name: string; arguments: string }>()
  #reasoning = ''
  #size = 0

  /** Whether more has come than is ever kept: the rest is not gathered. */
  get isTooLarge(): boolean {
    return this.#size > LARGEST_TRANSCRIPT
  }

  read(parts: AnswerPart<Kind>[]): void {
    if (this.isTooLarge) return
    for (const part of parts) this.#readPart(part)
  }

  /** Returns what was answered so far. */
  render(): TranscriptOutput {
    const [completion = null, ...alternatives] = this.#texts
    const tool_calls = [...this.#toolCalls.values()]
    return {
      completion,
      reasoning: this.#reasoning || null,
      ...(tool_calls.length > 0 ? { tool_calls } : {}),
      ...(alternatives.length > 0 ? { alternatives } : {}),
    }
  }

  #readPart(part: AnswerPart<Kind>): void {
    if (part.type === 'text-delta' || part.type === 'refusal-delta') {
      this.#texts[part.choice] = (this.#texts[part.choice] ?? '') + this.#count(part.text)
    } else if (part.type === 'reasoning-delta') {
      if (part.choice === 0) this.#reasoning += this.#count(part.text)
    } else if (part.type === 'tool-call-start') {
      const { choice, index, id, name } = part
      this.#toolCalls.set(`${choice} ${index}`, { id, name: this.#count(name), arguments: '' })
    } else if (part.type === 'tool-call-delta') {
      const call = this.#toolCalls.get(`${part.choice} ${part.index}`)
      if (call) call.arguments += this.#count(part.input)
    }
  }

  #count(text: string): string {
    this.#size += text.length
    return text
  }
}

/**
 * Begins to gather the content of a call whose workspace keeps it. Nothing is gathered of calls that
 * ask for zero data retention, and of those that the share of the workspace leaves out.
 */
export function startTranscript({ config, ids }: InferenceWorld, run: Run): void {
  const { policy, call } = run
  if (run.within || run.isDry || call.routing.zdr || config.retention.content_mib === 0) return
  const { contentShare = 0 } = policy
  if (contentShare < 1 && ids.random() >= contentShare) return
  run.transcript = new TranscriptRecorder()
}

/**
 * Returns the sealed content of a call that ends. Null if content filters have blocked it, if it is
 * too large, or if one of its models may retain nothing.
 */
export function renderTranscript(
  world: InferenceWorld,
  run: Run,
  generation: Generation,
): StoredTranscript | null {
  const { transcript, call, policy, blocked } = run
  if (!transcript || transcript.isTooLarge || blocked) return null
  const models = [generation.model, ...call.models, ...run.attempts.map(getModel)]
  if (models.some(model => isInZdrGroup(world, policy.zdr, model))) return null
  try {
    return sealTranscript(world, generation, {
      input: renderInput(run),
      output: transcript.render(),
    })
  } catch {
    // A missing secret must not prevent a call from being recorded.
    return null
  }
}

const getModel = ({ endpoint }: Run['attempts'][number]): string => endpoint.model

function renderInput<K extends Kind>({ kind, call }: Run<K>): Transcript['input'] {
  if (call.kind === 'text') return { messages: call.messages.map(renderMessage) }
  const contents = kinds[kind].understanding.readContents(call)
  const [first] = contents[0] ?? []
  if (contents.length === 1 && contents[0]?.length === 1 && first?.type === 'text')
    return { prompt: first.text }
  return { messages: contents.map(blocks => ({ role: 'user', content: renderContent(blocks) })) }
}

/** Renders a message as the chat API has it. */
function renderMessage({ role, blocks, name, tool_call_id }: Message): object {
  const toolCalls = blocks.filter(block => block.type === 'tool-call')
  const reasoning = blocks.filter(block => block.type === 'reasoning')
  const content = blocks.filter(({ type }) => type !== 'tool-call' && type !== 'reasoning')
  return {
    role,
    content: content.length === 0 && toolCalls.length > 0 ? null : renderContent(content),
    ...(name === undefined ? {} : { name }),
    ...(tool_call_id === undefined ? {} : { tool_call_id }),
    ...(toolCalls.length === 0 ? {} : { tool_calls: toolCalls.map(renderToolCall) }),
    ...(reasoning.length === 0
      ? {}
      : { reasoning: reasoning.map(({ text }) => text ?? '').join('') }),
  }
}

const renderToolCall = ({ id, name, input }: Block & { type: 'tool-call' }) => ({
  id,
  type: 'function',
  function: { name, arguments: input },
})

function renderContent(blocks: Block[]): unknown {
  const [only] = blocks
  if (blocks.length === 0) return ''
  return blocks.length === 1 && only?.type === 'text' ? only.text : blocks.map(renderBlock)
}

function renderBlock(block: Block): unknown {
  switch (block.type) {
    case 'text':
      return { type: 'text', text: block.text }
    case 'image':
      return { type: 'image_url', image_url: { url: block.url } }
    case 'audio':
      return { type: 'input_audio', input_audio: { data: block.data, format: block.format } }
    case 'video':
      return { type: 'video_url', video_url: { url: block.url } }
    case 'file':
      return { type: 'file', file: block.file }
    case 'refusal':
      return { type: 'refusal', refusal: block.text }
    case 'other':
      return block.value
    default:
      return block
  }
}
