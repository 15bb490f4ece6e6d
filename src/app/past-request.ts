import { requireValid } from '../base/body.ts'
import { GatewayError, invalid } from '../base/errors.ts'
import { getOwn } from '../base/json.ts'
import { explain } from '../extensions/explain.ts'
import type { ExtensionWorld } from '../extensions/world.ts'
import type { DialectName } from '../language/dialect.ts'
import { findGeneration } from '../observability/generations/find.ts'
import type { Generation } from '../observability/generations/store.ts'
import {
  getGenerationContent,
  type Transcript,
  type TranscriptWorld,
} from '../observability/transcripts.ts'
import type { Actor } from '../resources/actor.ts'
import type { DialectBody } from '../translation/dialects/dialect.ts'
import { findDialect } from '../translation/dialects/registry.ts'
import type { DialectWorld } from '../translation/dialects/world.ts'

/** What is known of a finished call, from its record. */
type PastCall = Pick<
  Generation,
  | 'api_type'
  | 'model'
  | 'router'
  | 'native_tokens_prompt'
  | 'session_id'
  | 'external_user'
  | 'preset_id'
>

/** A request as far as a record and what is kept of its texts tell it. */
export interface PastRequest {
  dialect: DialectName
  body: Record<string, unknown>
  /** What is not known of it, in sentences: what stands in its place, or that nothing does. */
  unknown: string[]
}

/** The bodies that each `api_type` of a record is asked with again. */
const BODIES: Record<string, [DialectName, (text: string) => object]> = {
  completions: ['chat', text => ({ messages: [{ role: 'user', content: text }] })],
  responses: ['chat', text => ({ messages: [{ role: 'user', content: text }] })],
  embeddings: ['embeddings', text => ({ input: text })],
  rerank: ['rerank', text => ({ query: text, documents: [text] })],
  image: ['images', text => ({ prompt: text })],
  tts: ['speech', text => ({ input: text.slice(0, LONGEST_SPEECH) })],
  video: ['videos', text => ({ prompt: text.slice(0, LONGEST_SPEECH) })],
}

/** In characters: the longest text that is to be spoken or filmed. */
const LONGEST_SPEECH = 4_096

/** The most tokens that a filler stands for. */
const MOST_FILLER = 100_000

/**
 * Rebuilds the request of a finished call. Without its content a filler of as many tokens stands
 * for its texts. Tools, parameters and preferences are on no record. Throws 400 for a call that was
 * no request of its own, or whose request was an upload.
 */
export function rebuildRequest(
  call: PastCall,
  content: Transcript['input'] | null,
  preset: string | null = null,
): PastRequest {
  const [dialect, build] = getOwn(BODIES, call.api_type) ?? []
  if (!dialect || !build)
    throw invalid('This call cannot be asked again: what it was asked with is not kept')
  const { model, router, session_id, external_user } = call
  const texts =
    content && 'messages' in content && dialect === 'chat'
      ? content
      : build(readText(call, content))
  return {
    dialect,
    body: {
      ...texts,
      model: router ?? model,
      ...(session_id === null ? {} : { session_id }),
      ...(external_user === null ? {} : { user: external_user }),
      ...(preset === null ? {} : { preset }),
    },
    unknown: [
      ...(content === null ? [describeFiller(call)] : []),
      ...(preset === null && call.preset_id !== null ? ['Its preset is gone.'] : []),
      'Its tools, parameters and preferences are on no record: the defaults stand for them.',
    ],
  }
}

function readText({ native_tokens_prompt }: PastCall, content: Transcript['input'] | null): string {
  if (content) return 'prompt' in content ? content.prompt : JSON.stringify(content.messages)
  return 'word '.repeat(countFiller(native_tokens_prompt))
}

// A call that failed has no count of its own: some text stands for it all the same.
const countFiller = (tokens: number): number => Math.max(1, Math.min(tokens, MOST_FILLER))

const describeFiller = ({ native_tokens_prompt }: PastCall): string =>
  `Its texts are not kept: a filler of ${countFiller(native_tokens_prompt)} tokens stands for them.`

/**
 * Explains what would become of the request of a finished call now, asked with the same key, from
 * the same region. Where the key is gone it is asked without one, from the same workspace. Throws
 * 404 for a call that is not found, and what `rebuildRequest` and `explain` throw.
 */
export async function explainGeneration(
  world: ExtensionWorld & DialectWorld & TranscriptWorld,
  asker: Actor,
  id: string,
) {
  const call = await findGeneration(world, asker, id)
  const content = await findInput(world, asker, call.id)
  const request = rebuildRequest(call, content, findPresetSlug(world, call))
  const explanation = await explainRequest(world, asker, call, request)
  return { data: { explanation, unknown: request.unknown } }
}

// Most gateways keep no texts: without them a filler does.
async function findInput(world: TranscriptWorld, asker: Actor, id: string) {
  try {
    return (await getGenerationContent(world, asker, id)).data.input
  } catch (thrown) {
    const type = thrown instanceof GatewayError ? thrown.type : null
    const isOfOthers = type === 'permission_denied' && asker.kind === 'management'
    if (type === 'not_found' || isOfOthers) return null
    throw thrown
  }
}

function findPresetSlug({ memory: { presets } }: DialectWorld, { preset_id }: Generation) {
  if (preset_id === null) return null
  return [...presets.values()].find(({ id }) => id === preset_id)?.slug ?? null
}

function explainRequest(
  world: ExtensionWorld & DialectWorld,
  asker: Actor,
  { key_hash, workspace_id, data_region, session_id, http_referer, title }: Generation,
  request: PastRequest,
) {
  const dialect = findDialect(request.dialect)
  const body = requireValid(dialect.body, request.body) as DialectBody
  const hasKey = key_hash !== null && world.memory.keys.get(key_hash) !== undefined
  const identity = hasKey ? { key: key_hash } : { workspace_id }
  return explain(world, asker, identity, dialect.kind, actor =>
    dialect.toCall(world, actor, body, {
      origin: {
        ...{ request_id: '', http_referer, title, user_agent: null, region: data_region },
        traceContext: null,
      },
      ...{ id: '', session_id, betas: [] },
    }),
  )
}
