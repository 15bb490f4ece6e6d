import { invalid } from '../../errors.ts'
import type { EmbeddingCall, EmbeddingInput } from '../../language/embedding.ts'
import type { Block } from '../../language/message.ts'

/** Throws 400 for more inputs than the provider takes at once: half of an answer would be none. */
export function atMost(most: number, { inputs }: EmbeddingCall): void {
  if (inputs.length <= most) return
  throw invalid(`input: expected at most ${most} at a time for this model’s provider, found ${inputs.length}`, 'input')
}

/** The inputs of a provider that reads words only. Throws 400 for any other. */
export const textsOf = ({ inputs }: EmbeddingCall): string[] => inputs.map(textOf)

function textOf(input: EmbeddingInput): string {
  return blocksOf(input)
    .map(block => (block.type === 'text' ? block.text : refuse(block.type)))
    .join('\n')
}

/** What one input is made of. Throws 400 for tokens: nobody but the model's own tokenizer knows what they say. */
export function blocksOf(input: EmbeddingInput): Block[] {
  if (input.type === 'content') return input.blocks
  return input.type === 'text' ? [{ type: 'text', text: input.text }] : refuse('tokens')
}

/** Throws 400 naming the kind of content that the provider has no vectors for. */
export function refuse(kind: string): never {
  throw invalid(`input: ${kind} is a kind of content that this model’s provider does not take`, 'input')
}
