import { type Static, Type } from '@sinclair/typebox'
import { configOf, type Draft } from '../../catalog/presets/draft.ts'
import { open } from '../../kernel/schema-builders.ts'
import type { PresetForm } from '../dialect.ts'
import { caching } from '../schema.ts'
import { modernize } from './request.ts'
import { ChatRequest, type Message } from './schema.ts'

const ChatPreset = Type.Object({ ...ChatRequest.properties, ...caching }, open)
type ChatPreset = Static<typeof ChatPreset>

/** A chat request from which a preset is made. */
export const chatPreset: PresetForm<ChatPreset> = {
  name: 'chat',
  path: '/chat/completions',
  operation: {
    id: 'createPresetsChatCompletions',
    summary: 'Create a preset, or its next version, from a chat request',
  },
  body: ChatPreset,
  toDraft,
}

// The system messages before all others are the system prompt.
function toDraft(body: ChatPreset): Draft {
  return { system_prompt: leading(body.messages ?? []), config: configOf(modernize(body)) }
}

function leading(messages: Message[]): string | null {
  const end = messages.findIndex(({ role }) => role !== 'system' && role !== 'developer')
  const said = messages.slice(0, end === -1 ? messages.length : end).map(textOf)
  return said.length === 0 ? null : said.join('\n\n')
}

const textOf = ({ content }: Message): string =>
  typeof content === 'string'
    ? content
    : (content ?? []).map(part => (part.type === 'text' ? part.text : '')).join('\n\n')
