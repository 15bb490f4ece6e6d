import { Elysia } from 'elysia'
import type { Gateway } from '../../app/gateway.ts'
import { PresetQuery } from '../../resources/presets/schema.ts'
import {
  createPreset,
  getPreset,
  getPresetVersion,
  listPresets,
  listPresetVersions,
} from '../../resources/presets.ts'
import { buildPresetDraft } from '../../translation/dialects/presets.ts'
import { presetForms } from '../../translation/dialects/registry.ts'
import { requireKey } from '../access.ts'
import { readBody, readQuery } from '../body.ts'
import { describeOperation, type Operation } from '../operation.ts'

const describePresetsOperation = (details: Omit<Operation, 'tag'>) =>
  describeOperation({ tag: 'Presets', ...details })
const slug = { slug: 'The preset’s name in URLs' }
const CREATED = [200, 400, 401, 403, 404, 409, 500]
const FOUND = [200, 400, 401, 404, 500]

/** Creates the routes of presets in the key's workspace: specification E6 and the rest. */
export function createPresetRoutes(gateway: Gateway) {
  const app = new Elysia({ prefix: '/presets' })
    .use(requireKey(gateway))
    .get(
      '/',
      ({ actor, request }) => listPresets(gateway, actor, readQuery(request, PresetQuery)),
      describePresetsOperation({
        id: 'listPresets',
        summary: 'List presets',
        query: PresetQuery,
        statuses: [200, 400, 401, 500],
      }),
    )
    .get(
      '/:slug',
      ({ actor, params }) => getPreset(gateway, actor, params.slug),
      describePresetsOperation({
        id: 'getPreset',
        summary: 'Get a preset in its designated version',
        params: slug,
        statuses: FOUND,
      }),
    )
    .get(
      '/:slug/versions',
      ({ actor, params, request }) =>
        listPresetVersions(gateway, actor, params.slug, readQuery(request, PresetQuery)),
      describePresetsOperation({
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
      describePresetsOperation({
        id: 'getPresetVersion',
        summary: 'Get one version of a preset',
        params: { ...slug, version: 'The number of the version, from 1' },
        statuses: FOUND,
      }),
    )
  for (const form of presetForms) {
    app.post(
      `/:slug${form.path}`,
      async ({ actor, params, request }) => {
        const body = await readBody(request, form.body)
        return createPreset(
          gateway,
          actor,
          params.slug,
          buildPresetDraft(gateway, actor, form, body),
        )
      },
      describePresetsOperation({
        ...form.operation,
        params: slug,
        body: form.body,
        statuses: CREATED,
      }),
    )
  }
  return app
}
