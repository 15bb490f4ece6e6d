import { Elysia } from 'elysia'
import { PresetQuery } from '../../core/catalog/presets/schema.ts'
import { createPreset, getPreset, getPresetVersion, listPresets, listPresetVersions } from '../../core/catalog/presets.ts'
import { draftOf, presetBodies } from '../../core/dialects/presets.ts'
import type { Gateway } from '../../core/gateway.ts'
import type { Actor } from '../../core/identity/actor.ts'
import type { Dialect } from '../../core/language/dialect.ts'
import { anyKey } from '../access.ts'
import { readBody, readQuery } from '../body.ts'
import { type Operation, operation } from '../operation.ts'

const presetsOperation = (described: Omit<Operation, 'tag'>) => operation({ tag: 'Presets', ...described })
const slug = { slug: 'The preset’s name in URLs' }
const CREATED = [200, 400, 401, 403, 404, 409, 500]
const FOUND = [200, 400, 401, 404, 500]

/** Presets of the key's workspace: specification E6 and the rest of the resource. */
export const presets = (gateway: Gateway) =>
  new Elysia({ prefix: '/presets' })
    .use(anyKey(gateway))
    .get(
      '/',
      ({ actor, request }) => listPresets(gateway, actor, readQuery(request.url, PresetQuery)),
      presetsOperation({ id: 'listPresets', summary: 'List presets', query: PresetQuery, statuses: [200, 400, 401, 500] }),
    )
    .get(
      '/:slug',
      ({ actor, params }) => getPreset(gateway, actor, params.slug),
      presetsOperation({ id: 'getPreset', summary: 'Get a preset as it is used', params: slug, statuses: FOUND }),
    )
    .get(
      '/:slug/versions',
      ({ actor, params, request }) => listPresetVersions(gateway, actor, params.slug, readQuery(request.url, PresetQuery)),
      presetsOperation({
        id: 'listPresetVersions',
        summary: 'List the versions of a preset',
        params: slug,
        query: PresetQuery,
        statuses: FOUND,
      }),
    )
    .get(
      '/:slug/versions/:version',
      ({ actor, params }) => getPresetVersion(gateway, actor, params.slug, params.version),
      presetsOperation({
        id: 'getPresetVersion',
        summary: 'Get one version of a preset',
        params: { ...slug, version: 'The number of the version, from 1' },
        statuses: FOUND,
      }),
    )
    .post(
      '/:slug/chat/completions',
      ({ actor, params, request }) => create(gateway, actor, params.slug, 'chat', request),
      presetsOperation({
        id: 'createPresetsChatCompletions',
        summary: 'Create a preset, or its next version, from a chat request',
        params: slug,
        body: presetBodies.chat,
        statuses: CREATED,
      }),
    )
    .post(
      '/:slug/messages',
      ({ actor, params, request }) => create(gateway, actor, params.slug, 'messages', request),
      presetsOperation({
        id: 'createPresetsMessages',
        summary: 'Create a preset, or its next version, from a request in Anthropic’s format',
        params: slug,
        body: presetBodies.messages,
        statuses: CREATED,
      }),
    )
    .post(
      '/:slug/responses',
      ({ actor, params, request }) => create(gateway, actor, params.slug, 'responses', request),
      presetsOperation({
        id: 'createPresetsResponses',
        summary: 'Create a preset, or its next version, from a Responses request',
        params: slug,
        body: presetBodies.responses,
        statuses: CREATED,
      }),
    )

async function create(gateway: Gateway, actor: Actor, slug: string, dialect: Dialect, request: Request) {
  const body = await readBody(request, presetBodies[dialect])
  return createPreset(gateway, actor, slug, draftOf(gateway, actor, dialect, body))
}
