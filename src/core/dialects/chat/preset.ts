import { type Static, Type } from '@sinclair/typebox'
import { type PresetDraft, pickPresetConfig } from '../../catalog/presets/draft.ts'
import { open } from '../../kernel/schema-builders.ts'
import type { PresetForm } from '../dialect.ts'
import { presetCacheFields } from '../schema.ts'
import { readStops } from '../server-tools.ts'
import { modernizeRequest } from './request.ts'
import { type ChatMessage, ChatRequest } from './schema.ts'

const ChatPreset = Type.Object({ ...ChatRequest.properties, ...presetCacheFields }, open)
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
  toPresetDraft,
}

// The system messages before all others are the system prompt.
function toPresetDraft(body: ChatPreset): PresetDraft {
  readStops(body)
  return {
    system_prompt: readSystemPrompt(body.messages ?? []),
    config: pickPresetConfig(modernizeRequest(body)),
  }
}

function readSystemPrompt(messages: ChatMessage[]): string | null {
  const end = messages.findIndex(({ role }) => role !== 'system' && role !== 'developer')
  const texts = messages.slice(0, end === -1 ? messages.length : end).map(readText)
  return texts.length === 0 ? null : texts.join('\n\n')
}

const readText = ({ content }: ChatMessage): string =>
  typeof content === 'string'
    ? content
    : (content ?? []).map(part => (part.type === 'text' ? part.text : '')).join('\n\n')
