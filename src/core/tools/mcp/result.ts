import type { CallToolResult } from '@modelcontextprotocol/sdk/types.js'
import { hideSecrets } from '../../upstream/clean-reason.ts'
import { cleanText, cutBytes } from '../untrusted-text.ts'
import { listSecrets, type McpServer } from './server.ts'

type Content = CallToolResult['content'][number]

/**
 * Returns what a tool answered as text, cut to so many bytes: texts as they are, links by their URL,
 * and of pictures and sounds that they were there. Secrets of the server's own are hidden.
 */
export function renderContent(
  server: McpServer,
  { content, structuredContent }: CallToolResult,
  mostBytes: number,
): string {
  const texts = content.map(renderPart).filter(text => text !== '')
  const text =
    texts.length === 0 && structuredContent ? JSON.stringify(structuredContent) : texts.join('\n\n')
  const shown = hideSecrets(cleanText(text), listSecrets(server))
  const cut = cutBytes(shown, mostBytes)
  return cut.length < shown.length ? `${cut}\n[The rest was cut off.]` : cut
}

function renderPart(part: Content): string {
  if (part.type === 'text') return part.text
  if (part.type === 'resource_link') return `${part.name}: ${part.uri}`
  if (part.type === 'image' || part.type === 'audio') return `[${part.type}: not shown]`
  return 'text' in part.resource ? part.resource.text : `[file ${part.resource.uri}: not shown]`
}
