import type { GatewayError } from '../../../base/errors.ts'
import {
  isObject,
  type Json,
  omitUndefined,
  readObject,
  readObjects,
  readString,
} from '../../../base/json.ts'
import { countPictures, type ImageCall, type ImagePart } from '../../../language/image.ts'
import type { Endpoint } from '../../../resources/models/catalog.ts'
import { translateFailure, unreadableAnswer } from '../failure.ts'
import {
  imageDefaults,
  pickPixels,
  pickRatio,
  readOptions,
  readPicture,
  toImageParts,
} from '../images.ts'
import type { Protocol, UpstreamRequest } from '../protocol.ts'
import { pickFormat } from './capabilities.ts'
import { type FalFamily, findFamily } from './fal/families.data.ts'
import { readAnswerFailure } from './refusal.ts'

/**
 * fal: `POST {base_url}/{model}`, which answers with the URLs of the pictures
 * (https://docs.fal.ai/model-endpoints/synchronous-requests).
 */
export const falImages: Protocol<'image'> = {
  ...imageDefaults,
  buildRequest,
  parseAnswer,
  readFailure,
}

function buildRequest(call: ImageCall, endpoint: Endpoint): UpstreamRequest {
  const { upstreamModel } = endpoint
  const family = findFamily(upstreamModel)
  const known = omitUndefined({
    prompt: call.prompt,
    num_images: countPictures(call),
    ...renderShape(call, endpoint, family),
    seed: call.params.seed,
    output_format: pickFormat(call, endpoint),
  })
  const body = { ...readOptions(call, endpoint), ...known, ...renderReferences(call, family) }
  return { path: buildPath(upstreamModel, call.references.length > 0, family), body }
}

const renderShape = (call: ImageCall, endpoint: Endpoint, family: FalFamily): Json =>
  family.sized
    ? { image_size: pickPixels(call) }
    : {
        aspect_ratio: pickRatio(call, endpoint),
        resolution: family.resolutions.length > 0 ? call.params.resolution : undefined,
      }

function renderReferences({ references }: ImageCall, family: FalFamily): Json {
  if (references.length === 0 || !family.references) return {}
  const { field } = family.references
  return { [field]: field === 'image_urls' ? references : references[0] }
}

/** A model that names its whole path is asked there, whatever the call consists of. */
function buildPath(model: string, hasReferences: boolean, family: FalFamily): string {
  const ending = (hasReferences ? family.references?.ending : family.ending) ?? ''
  const path = model.split('/').map(encodeURIComponent).join('/')
  return `/${path.endsWith(ending) ? path : path + ending}`
}

function parseAnswer(body: unknown, call: ImageCall): ImagePart[] {
  if (!isObject(body)) throw unreadableAnswer()
  if (body.detail !== undefined && body.images === undefined)
    throw readAnswerFailure(body.detail, () => readFailure(502, body))
  const images = isObject(body.image) ? [body.image] : readObjects(body.images)
  const flags = Array.isArray(body.has_nsfw_concepts) ? body.has_nsfw_concepts : []
  // What is flagged is black.
  const shown = images.filter((_, i) => flags[i] !== true)
  const pictures = shown.flatMap(({ url }) => readPicture(undefined, url))
  return toImageParts(call, body, { pictures })
}

/**
 * Reads a failure: `detail` is a sentence, or a list with a type for each problem
 * (https://docs.fal.ai/model-apis/errors).
 */
function readFailure(status: number, body: unknown): GatewayError {
  const { detail } = isObject(body) ? body : {}
  const [first] = readObjects(detail)
  const { loc, type, msg } = first ?? readObject({ detail }, 'detail')
  const param = Array.isArray(loc) ? readString(loc.at(-1)) : undefined
  const message = typeof detail === 'string' ? detail : msg
  return translateFailure(status, { code: type, message, param })
}
