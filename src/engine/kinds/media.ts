import type { Block } from '../../language/message.ts'
import type { Media } from '../../translation/protocols/protocol.ts'

/** Media that a call refers to by URL. */
export interface MediaReference {
  kind: Media
  url: string
  /** Where it stands in the request. */
  field?: string
}

/** Lists what these contents refer to by URL, whatever its scheme. */
export function listContentMedia(contents: Block[][]): MediaReference[] {
  const references: MediaReference[] = []
  for (const blocks of contents)
    for (const block of blocks) {
      const reference = findReference(block)
      if (reference) references.push(reference)
    }
  return references
}

/** Returns the block with a new URL, if there is one for its own. */
export function replaceUrl(block: Block, urls: Map<string, string>): Block {
  const url = urls.get(findReference(block)?.url ?? '')
  if (url === undefined) return block
  if (block.type === 'file') return { ...block, file: { ...block.file, file_data: url } }
  return block.type === 'image' || block.type === 'video' ? { ...block, url } : block
}

function findReference(block: Block): MediaReference | undefined {
  if (block.type === 'image' || block.type === 'video')
    return { kind: block.type, url: block.url, ...toField(block) }
  if (block.type !== 'file') return undefined
  const url = block.file.file_data
  return url !== undefined && isUrl(url) ? { kind: 'file', url, ...toField(block) } : undefined
}

const toField = ({ field }: { field?: string }) => (field === undefined ? {} : { field })

const isUrl = (text: string): boolean => /^[a-z][a-z0-9+.-]*:/i.test(text)
