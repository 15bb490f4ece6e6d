import type { GatewayError } from '../../../base/errors.ts'
import { isObject, omitUndefined } from '../../../base/json.ts'
import type { ImageCall, ImagePart } from '../../../language/image.ts'
import type { Endpoint } from '../../../resources/models/catalog.ts'
import { findMessage, translateFailure, unreadableAnswer } from '../failure.ts'
import { imageDefaults, pickRatio, readOptions, readPicture, toImageParts } from '../images.ts'
import type { Protocol, UpstreamRequest } from '../protocol.ts'
import { pickFormat } from './capabilities.ts'

/**
 * Stability: a form to `POST {base_url}/stable-image/generate/{service}`, which answers with JSON if
 * it is asked to (https://platform.stability.ai/docs/api-reference).
 */
export const stabilityImages: Protocol<'image'> = {
  ...imageDefaults,
  buildRequest,
  parseAnswer,
  readFailure,
}

/** How far a picture may leave its reference: half of the way. Stability has no default. */
const STRENGTH = 0.5

function buildRequest(call: ImageCall, endpoint: Endpoint): UpstreamRequest {
  const { references, params } = call
  const service = pickService(endpoint)
  const hasReference = references.length > 0
  const known = omitUndefined({
    prompt: call.prompt,
    model: service === 'sd3' ? endpoint.upstreamModel : undefined,
    // The picture has a shape of its own.
    aspect_ratio: hasReference ? undefined : pickRatio(call, endpoint),
    seed: params.seed,
    output_format: pickFormat(call, endpoint),
    mode: hasReference && service === 'sd3' ? 'image-to-image' : undefined,
    image: hasReference ? references : undefined,
  })
  return {
    path: `/stable-image/generate/${service}`,
    headers: { accept: 'application/json' },
    body: {
      ...(hasReference ? { strength: STRENGTH } : {}),
      ...readOptions(call, endpoint),
      ...known,
    },
    files: ['image'],
  }
}

/** Two models are services of their own; all others are Stable Diffusion 3. */
function pickService({ upstreamModel }: Endpoint): 'core' | 'ultra' | 'sd3' {
  if (/core$/.test(upstreamModel)) return 'core'
  return /ultra$/.test(upstreamModel) ? 'ultra' : 'sd3'
}

function parseAnswer(body: unknown, call: ImageCall): ImagePart[] {
  if (!isObject(body)) throw unreadableAnswer()
  // What is filtered is blurred.
  const isFiltered = body.finish_reason === 'CONTENT_FILTERED'
  const pictures = isFiltered ? [] : readPicture(body.image, undefined)
  return toImageParts(call, body, { pictures })
}

/** Reads a failure: a `name` for machines, and `errors` for people. */
function readFailure(status: number, body: unknown): GatewayError {
  const { name, errors } = isObject(body) ? body : {}
  return translateFailure(status, { code: name, message: findMessage(errors) })
}
