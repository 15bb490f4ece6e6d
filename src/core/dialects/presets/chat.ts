import { type Static, Type } from '@sinclair/typebox'
import { configOf, type Draft } from '../../catalog/presets/draft.ts'
import { open } from '../../kernel/schema-builders.ts'
import { modern } from '../chat/legacy.ts'
import { ChatRequest, type Message } from '../chat/schema.ts'
import { caching } from './caching.ts'

/** A chat request that a preset is made of. */
export const ChatPreset = Type.Object({ ...ChatRequest.properties, ...caching }, open)
export type ChatPreset = Static<typeof ChatPreset>

/** What it says of how to answer. What the system says before anybody else speaks is the system prompt. */
export const chatDraft = (body: ChatPreset): Draft => ({
  system_prompt: leading(body.messages ?? []),
  config: configOf(modern(body)),
})

function leading(messages: Message[]): string | null {
  const end = messages.findIndex(({ role }) => role !== 'system' && role !== 'developer')
  const said = messages.slice(0, end === -1 ? messages.length : end).map(textOf)
  return said.length === 0 ? null : said.join('\n\n')
}

const textOf = ({ content }: Message): string =>
  typeof content === 'string' ? content : (content ?? []).map(part => (part.type === 'text' ? part.text : '')).join('\n\n')
