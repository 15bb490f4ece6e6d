import { type Json, parseObject } from '../../kernel/json.ts'
import type { Answer } from '../../language/answer.ts'
import type { TextCall } from '../../language/call.ts'
import type { ReceiptPart, TextPart } from '../../language/part.ts'
import { type BlockDelta, type BlockEvent, wrapInvalidInput } from './block-queue.ts'
import { MessageContent } from './content.ts'
import { providerError, readSiblingFields, renderEnding } from './finish.ts'
import { renderCosts, renderMessageUsage } from './usage.ts'

/**
 * Collects the parts of an answer into one message. Throws the error of a failed answer: a message
 * cannot contain an error.
 */
export async function collectMessagesResponse(answer: Answer<'text'>, { params }: TextCall) {
  const content = new MessageContent(params.reasoning?.exclude ?? false)
  const blocks = new BlockAssembler()
  let finish: Extract<TextPart, { type: 'finish' }> | null = null
  let tier: string | null = null
  let receipt: ReceiptPart | null = null
  for (const batch of await answer.parts.collect()) {
    for (const part of batch) {
      if (part.type === 'error') throw part.error
      if (part.type === 'start') tier = part.service_tier
      else if (part.type === 'receipt') receipt = part
      else if (part.type === 'finish') finish ??= part.choice === 0 ? part : null
      else blocks.add(content.read(part))
    }
  }
  if (finish?.reason === 'error') throw providerError(receipt?.siblingFields)
  blocks.add(content.end())
  return {
    id: answer.id,
    type: 'message',
    role: 'assistant',
    model: answer.model,
    provider: answer.provider,
    content: blocks.content,
    ...renderEnding(finish, content),
    ...readSiblingFields(finish),
    ...(receipt
      ? {
          usage: {
            ...renderMessageUsage(
              receipt.receipt.usage,
              content.webFetches,
              tier,
              receipt.receipt.serverTools,
            ),
            ...renderCosts(receipt.receipt),
          },
          ...receipt.siblingFields,
        }
      : {}),
  }
}

/** Assembles content blocks from events, as a client does. */
class BlockAssembler {
  readonly content: Json[] = []
  #text = ''
  #citations: Json[] = []

  add(steps: BlockEvent[]): void {
    for (const step of steps) {
      if (step.type === 'content_block_start') this.#begin(step.content_block)
      else if (step.type === 'content_block_delta') this.#addDelta(step.delta)
      else this.#end()
    }
  }

  #begin(block: Json): void {
    this.content.push({ ...block })
    this.#text = ''
    this.#citations = []
  }

  #addDelta(delta: BlockDelta): void {
    switch (delta.type) {
      case 'text_delta':
        this.#text += delta.text
        break
      case 'thinking_delta':
        this.#text += delta.thinking
        break
      case 'input_json_delta':
        this.#text += delta.partial_json
        break
      case 'citations_delta':
        this.#citations.push(delta.citation)
        break
      case 'compaction_delta': {
        const { type: _, ...compaction } = delta
        for (const [name, value] of Object.entries(compaction)) this.#set(name, value)
        break
      }
      case 'signature_delta':
        this.#set('signature', delta.signature)
    }
  }

  #end(): void {
    switch (this.content.at(-1)?.type) {
      case 'text':
        this.#set('text', this.#text)
        if (this.#citations.length > 0) this.#set('citations', this.#citations)
        break
      case 'thinking':
        this.#set('thinking', this.#text)
        break
      default:
        if (this.#text) this.#set('input', parseObject(this.#text) ?? wrapInvalidInput(this.#text))
    }
  }

  #set(name: string, value: unknown): void {
    const block = this.content.at(-1)
    if (block) block[name] = value
  }
}
