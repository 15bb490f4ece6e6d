import { invalid } from '../../errors.ts'
import type { Actor } from '../../identity/actor.ts'
import { readImageParams } from '../../inference/kinds/image/params.ts'
import { isDataUrl } from '../../kernel/data-url.ts'
import { omitUndefined } from '../../kernel/json.ts'
import type { ImageCall } from '../../language/image.ts'
import type { CallContext } from '../dialect.ts'
import { readProviderOptions } from '../provider-options.ts'
import { buildCallBase } from '../routing.ts'
import type { DialectWorld } from '../world.ts'
import type { ImagesRequest } from './schema.ts'

/**
 * Translates a checked body into a call. Throws 400 for sizes that contradict each other, for a
 * transparent background in a format that has none, for a reference that is no URL, and for an
 * empty list of allowed providers.
 */
export function toImageCall(
  world: DialectWorld,
  actor: Actor,
  body: ImagesRequest,
  context: CallContext,
): ImageCall {
  const { model, provider, user, session_id, trace, stream } = body
  return {
    ...buildCallBase(
      world,
      actor,
      { model, ...omitUndefined({ provider, user, session_id, trace, stream }) },
      context,
    ),
    kind: 'image',
    prompt: body.prompt,
    references: (body.input_references ?? []).map(readReference),
    params: readImageParams(body),
    options: readProviderOptions(provider),
  }
}

function readReference({ image_url: { url } }: Reference, index: number): string {
  if (isDataUrl(url) || /^https?:\/\//i.test(url)) return url
  const field = `input_references.${index}.image_url.url`
  throw invalid(`${field}: expected a data URL or an http(s) URL`, field)
}

type Reference = NonNullable<ImagesRequest['input_references']>[number]
