import { type Static, Type } from '@sinclair/typebox'
import { configOf, type Draft } from '../../catalog/presets/draft.ts'
import { open } from '../../kernel/schema-builders.ts'
import type { Tool } from '../../language/tool.ts'
import { paramsOf, toolOf } from '../messages/request.ts'
import { MessagesRequest } from '../messages/schema.ts'
import { caching } from './caching.ts'

/** A Messages request that a preset is made of. */
export const MessagesPreset = Type.Object({ ...MessagesRequest.properties, ...caching }, open)
export type MessagesPreset = Static<typeof MessagesPreset>

/** What it says of how to answer, in the chat API's words: `stop_sequences` is `stop`, `thinking` is `reasoning`. */
export function messagesDraft(body: MessagesPreset): Draft {
  const { model, route, provider, plugins, cache_enabled, cache_ttl_seconds } = body
  const models = [...(body.models ?? []), ...(body.fallbacks ?? []).map(fallback => fallback.model)]
  return {
    system_prompt: systemOf(body),
    config: configOf({
      ...{ model, route, provider, plugins, cache_enabled, cache_ttl_seconds },
      ...(models.length > 0 ? { models } : {}),
      ...paramsOf(body),
      ...(body.tools ? { tools: body.tools.map(tool => wireOf(toolOf(tool))) } : {}),
    }),
  }
}

function systemOf({ system }: MessagesPreset): string | null {
  if (system == null || system.length === 0) return null
  return typeof system === 'string' ? system : system.map(({ text }) => text).join('\n\n')
}

/** A tool as a chat request has it. One that we have no word for stays as it came. */
function wireOf(tool: Tool): unknown {
  if (tool.type === 'other') return tool.value
  const { type, cache_control, extra = {}, ...definition } = tool
  return { ...extra, type, function: definition, ...(cache_control ? { cache_control } : {}) }
}
