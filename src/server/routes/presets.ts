import type { Gateway } from '../../app/gateway.ts'
import { createPreset } from '../../resources/presets.ts'
import { buildPresetDraft } from '../../translation/dialects/presets.ts'
import { presetForms } from '../../translation/dialects/registry.ts'
import { recheckActor, requireKey } from '../access.ts'
import { readBody } from '../body.ts'
import { describeOperation } from '../operation.ts'
import { Routes } from '../routes.ts'

/** Creates the routes that make a preset of the body of a call (specification E6). */
export function createPresetRoutes(gateway: Gateway) {
  const routes = new Routes(requireKey(gateway))
  for (const form of presetForms) {
    routes.post(
      `/presets/:slug${form.path}`,
      async ({ actor, params, request }) => {
        const body = await readBody(request, form.body)
        await recheckActor(gateway, request, actor)
        return createPreset(
          gateway,
          actor,
          params.slug,
          buildPresetDraft(gateway, actor, form, body),
        )
      },
      describeOperation({
        tag: 'Presets',
        ...form.operation,
        params: SLUG,
        body: form.body,
        statuses: CREATED,
      }),
    )
  }
  return routes
}

const SLUG = { slug: 'The preset’s name in URLs' }
const CREATED = [200, 400, 401, 403, 404, 409, 500]
