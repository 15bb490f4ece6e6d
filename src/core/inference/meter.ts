import { estimateTokenCount } from 'tokenx'
import { type Block, type TextCall, type TextPart, textUsage, type Usage } from './call.ts'

/** Counted in pieces of this many characters, so that a long answer is never held in full. */
const PIECE = 4096

/** Watches the parts of one answer as they pass: what the provider counted, and what was delivered in case it counts nothing. */
export class Meter {
  usage: Usage | null = null
  /** Why the answer ended; null until it does. The first choice's reason stands for the answer. */
  finish: { reason: string; native: string | null } | null = null
  start: { upstream_id: string | null; service_tier: string | null } = { upstream_id: null, service_tier: null }
  #tokens = 0
  #piece = ''

  /** Sees the parts. */
  read(parts: TextPart[]): void {
    for (const part of parts) this.#see(part)
  }

  /** Whether anything that costs was delivered. */
  get delivered(): boolean {
    return this.#tokens > 0 || this.#piece.length > 0
  }

  /** What the delivered text comes to by a rule of thumb, when the provider told no count. */
  estimate(call: TextCall): Usage {
    return textUsage(promptEstimate(call), this.#tokens + estimateTokenCount(this.#piece))
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

  #count(text: string): void {
    this.#piece += text
    if (this.#piece.length < PIECE) return
    this.#tokens += estimateTokenCount(this.#piece)
    this.#piece = ''
  }
}

function promptEstimate({ turns, tools }: TextCall): number {
  const texts = turns.flatMap(turn => turn.blocks.map(textOf))
  if (tools.length > 0) texts.push(JSON.stringify(tools))
  return texts.reduce((sum, text) => sum + estimateTokenCount(text), 0)
}

function textOf(block: Block): string {
  if (block.type === 'tool-call') return `${block.name} ${block.input}`
  return 'text' in block && block.text !== null ? block.text : ''
}
