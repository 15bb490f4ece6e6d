import type { Block } from '../../language/message.ts'
import type { Kind, Work } from '../../language/work.ts'
import type { Model } from '../../resources/models/catalog.ts'
import { kinds } from '../kinds.ts'

/** Ours, not in the public list: the model does not accept something that the call contains. */
export const INPUT_MODALITIES = 'input_modalities'

/** Lists what the call contains that the model is known not to accept: `image`, `file`, … */
export const listRefusedInputs = <K extends Kind>(
  { refused_modalities }: Model,
  kind: K,
  call: Work[K]['call'],
): string[] =>
  refused_modalities.length === 0
    ? []
    : getInputs(kind, call).filter(input => refused_modalities.includes(input))

const inputsByCall = new WeakMap<object, string[]>()

// Each endpoint of each model is checked, but a call contains what it contains.
function getInputs<K extends Kind>(kind: K, call: Work[K]['call']): string[] {
  const known = inputsByCall.get(call)
  if (known) return known
  const inputs = new Set<string>()
  for (const blocks of kinds[kind].understanding.readRichContents(call))
    for (const block of blocks) if (isMedia(block)) inputs.add(block.type)
  const listed = [...inputs]
  inputsByCall.set(call, listed)
  return listed
}

// Text files are sent as texts, and so is what a plugin has read. What a provider keeps under an id may be anything.
function isMedia(block: Block): boolean {
  if (block.type !== 'file') return MEDIA.has(block.type)
  if (block.parsed) return false
  const { file_data } = block.file
  return file_data !== undefined && !file_data.startsWith('data:text/')
}

const MEDIA = new Set(['image', 'audio', 'video'])
