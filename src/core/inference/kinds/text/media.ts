import type { TextCall } from '../../../language/call.ts'
import type { Block } from '../../../language/message.ts'
import type { Named } from '../../media.ts'

/** What the conversation names by URL, whatever its scheme. */
export function named({ turns }: TextCall): Named[] {
  const found: Named[] = []
  for (const { blocks } of turns)
    for (const block of blocks) {
      const one = namedBy(block)
      if (one) found.push(one)
    }
  return found
}

/** What one block names by URL. */
export function namedBy(block: Block): Named | undefined {
  switch (block.type) {
    case 'image':
    case 'video':
      return { kind: block.type, url: block.url }
    case 'file':
      return isUrl(block.file.file_data) ? { kind: 'file', url: block.file.file_data } : undefined
    default:
      return undefined
  }
}

const isUrl = (text: string | undefined): text is string => text !== undefined && /^[a-z][a-z0-9+.-]*:/i.test(text)

/** The call with other URLs for these. The call handed in stays as it is: another endpoint may take its URLs as they are. */
export const withUrls = (call: TextCall, urls: Map<string, string>): TextCall => ({
  ...call,
  turns: call.turns.map(turn => ({ ...turn, blocks: turn.blocks.map(block => withUrl(block, urls)) })),
})

/** The block with another URL, if there is one for its own. */
export function withUrl(block: Block, urls: Map<string, string>): Block {
  const url = urls.get(namedBy(block)?.url ?? '')
  if (url === undefined) return block
  if (block.type === 'file') return { ...block, file: { ...block.file, file_data: url } }
  return block.type === 'image' || block.type === 'video' ? { ...block, url } : block
}
