import { estimateTokenCount } from 'tokenx'
import type { Endpoint } from '../../catalog/models.ts'
import { type Block, namesInText, type TextCall, type TextPart, textUsage, type Usage } from '../call.ts'
import type { KindOfWork, Meter } from '../kinds.ts'
import { fitted } from '../parameters.ts'

/** Conversations and completions: text in, text out, whatever else comes with it. */
export const text: KindOfWork<'text'> = {
  apiType: 'completions',
  isMeaningful,
  fitted,
  withoutNames: call => ({ ...call, turns: namesInText(call.turns) }),
  expected,
  meter: call => new TextMeter(call),
}

function isMeaningful(part: TextPart): boolean {
  if (part.type === 'text-delta' || part.type === 'refusal-delta') return part.text !== ''
  return part.type !== 'start' && part.type !== 'usage' && part.type !== 'echo' && part.type !== 'error'
}

// What the output may come to when neither the caller nor the endpoint bounds it.
const UNBOUNDED_OUTPUT = 4096
const CHARACTERS_PER_TOKEN = 4

function expected({ turns, params }: TextCall, { max_completion_tokens }: Endpoint): { input: number; output: number } {
  let characters = 0
  for (const { blocks } of turns) for (const block of blocks) if (block.type === 'text') characters += block.text.length
  return { input: Math.ceil(characters / CHARACTERS_PER_TOKEN), output: params.max_tokens ?? max_completion_tokens ?? UNBOUNDED_OUTPUT }
}

/** Counted in pieces of this many characters, so that a long answer is never held in full. */
const PIECE = 4096

class TextMeter implements Meter<TextPart> {
  usage: Usage | null = null
  /** The first choice's reason stands for the answer. */
  finish: { reason: string; native: string | null } | null = null
  start: { upstream_id: string | null; service_tier: string | null } = NOT_STARTED
  readonly #call: TextCall
  #tokens = 0
  #piece = ''

  constructor(call: TextCall) {
    this.#call = call
  }

  read(parts: TextPart[]): void {
    for (const part of parts) this.#see(part)
  }

  get delivered(): boolean {
    return this.#tokens > 0 || this.#piece.length > 0
  }

  estimate(): Usage {
    return textUsage(promptEstimate(this.#call), this.#tokens + estimateTokenCount(this.#piece))
  }

  #see(part: TextPart): void {
    switch (part.type) {
      case 'start':
        this.start = part
        break
      case 'usage':
        this.usage = part.usage
        break
      case 'finish':
        this.finish ??= part
        break
      case 'text-delta':
      case 'refusal-delta':
      case 'reasoning-delta':
        this.#count(part.text)
        break
      case 'tool-call-start':
        this.#count(part.name)
        break
      case 'tool-call-delta':
        this.#count(part.input)
        break
    }
  }

  #count(delta: string): void {
    this.#piece += delta
    if (this.#piece.length < PIECE) return
    this.#tokens += estimateTokenCount(this.#piece)
    this.#piece = ''
  }
}

const NOT_STARTED = { upstream_id: null, service_tier: null }

function promptEstimate({ turns, tools }: TextCall): number {
  const texts = turns.flatMap(turn => turn.blocks.map(textOf))
  if (tools.length > 0) texts.push(JSON.stringify(tools))
  return texts.reduce((sum, said) => sum + estimateTokenCount(said), 0)
}

function textOf(block: Block): string {
  if (block.type === 'tool-call') return `${block.name} ${block.input}`
  return 'text' in block && block.text !== null ? block.text : ''
}
