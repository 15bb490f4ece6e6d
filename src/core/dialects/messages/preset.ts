import { type Static, Type } from '@sinclair/typebox'
import { type PresetDraft, pickPresetConfig } from '../../catalog/presets/draft.ts'
import { open } from '../../kernel/schema-builders.ts'
import type { Tool } from '../../language/tool.ts'
import type { PresetForm } from '../dialect.ts'
import { presetCacheFields } from '../schema.ts'
import { readStops } from '../server-tools.ts'
import { checkFallbacks, toParams, toTool } from './request.ts'
import { MessagesRequest } from './schema.ts'

const MessagesPreset = Type.Object({ ...MessagesRequest.properties, ...presetCacheFields }, open)
type MessagesPreset = Static<typeof MessagesPreset>

/** A Messages request from which a preset is made. */
export const messagesPreset: PresetForm<MessagesPreset> = {
  name: 'messages',
  path: '/messages',
  operation: {
    id: 'createPresetsMessages',
    summary: 'Create a preset, or its next version, from a request in Anthropic’s format',
  },
  body: MessagesPreset,
  toPresetDraft,
}

// Under the chat API's field names: `stop_sequences` is `stop`, `thinking` is `reasoning`.
function toPresetDraft(body: MessagesPreset): PresetDraft {
  readStops(body)
  checkFallbacks(body)
  const { model, route, provider, plugins, cache_enabled, cache_ttl_seconds } = body
  const models = [...(body.models ?? []), ...(body.fallbacks ?? []).map(fallback => fallback.model)]
  return {
    system_prompt: readSystemPrompt(body),
    config: pickPresetConfig({
      ...{ model, route, provider, plugins, cache_enabled, cache_ttl_seconds },
      ...(models.length > 0 ? { models } : {}),
      ...toParams(body),
      ...(body.tools ? { tools: body.tools.map(tool => toChatTool(toTool(tool))) } : {}),
    }),
  }
}

function readSystemPrompt({ system }: MessagesPreset): string | null {
  if (system == null || system.length === 0) return null
  return typeof system === 'string' ? system : system.map(({ text }) => text).join('\n\n')
}

/** Converts a tool into its chat form. A tool that the gateway has no type for stays unchanged. */
function toChatTool(tool: Tool): unknown {
  if (tool.type === 'other') return tool.value
  const { type, cache_control, extra = {}, ...definition } = tool
  return { ...extra, type, function: definition, ...(cache_control ? { cache_control } : {}) }
}
