import { isObject, omitUndefined, readString } from '../../../base/json.ts'
import type { ImageCall, ImagePart } from '../../../language/image.ts'
import type { Endpoint } from '../../../resources/models/catalog.ts'
import { unreadableAnswer } from '../failure.ts'
import { imageDefaults, pickRatio, readOptions, readPicture, toImageParts } from '../images.ts'
import { goesOn } from '../job-words.ts'
import { readFailure } from '../openai-chat/failure.ts'
import type { FollowUp, Protocol, UpstreamRequest } from '../protocol.ts'
import { buildTask, parseTask } from './bfl.ts'

/**
 * The pictures of Fireworks: `POST {base_url}/workflows/{model}/text_to_image`, and `…/{model}` with
 * `…/get_result` for FLUX Kontext, which is Black Forest Labs' own form
 * (https://docs.fireworks.ai/api-reference/generate-a-new-image-from-a-text-prompt).
 */
export const fireworksImages: Protocol<'image'> = {
  ...imageDefaults,
  buildRequest,
  readPending,
  parseAnswer,
  readFailure,
}

const isTask = ({ upstreamModel }: Endpoint): boolean => /kontext/.test(upstreamModel)

/** Models of Fireworks' own go by a short name too. */
function buildPath({ upstreamModel }: Endpoint): string {
  const name = upstreamModel.includes('/')
    ? upstreamModel
    : `accounts/fireworks/models/${upstreamModel}`
  return `/workflows/${name.split('/').map(encodeURIComponent).join('/')}`
}

function buildRequest(call: ImageCall, endpoint: Endpoint): UpstreamRequest {
  const path = buildPath(endpoint)
  if (isTask(endpoint)) return { path, body: buildTask(call, endpoint) }
  const aspect_ratio = pickRatio(call, endpoint)
  const known = omitUndefined({ prompt: call.prompt, aspect_ratio, seed: call.params.seed })
  return {
    path: `${path}/text_to_image`,
    // Without it the answer is bytes, of which nothing says why there are none.
    headers: { accept: 'application/json' },
    body: { ...readOptions(call, endpoint), ...known },
  }
}

function readPending(body: unknown, endpoint: Endpoint, asked: FollowUp | null): FollowUp | null {
  if (!isObject(body) || !isTask(endpoint)) return null
  if (asked) return goesOn(body.status) ? asked : null
  const id = readString(body.request_id)
  return id === null ? null : { path: `${buildPath(endpoint)}/get_result`, body: { id } }
}

function parseAnswer(body: unknown, call: ImageCall, endpoint: Endpoint): ImagePart[] {
  if (!isObject(body)) throw unreadableAnswer()
  if (isTask(endpoint)) return parseTask(body, call)
  const given = Array.isArray(body.base64) ? body.base64 : [body.base64]
  const isFiltered = body.finishReason === 'CONTENT_FILTERED'
  const pictures = isFiltered ? [] : given.flatMap(one => readPicture(undefined, toDataUrl(one)))
  return toImageParts(call, body, { pictures, upstream_id: readString(body.id) })
}

const toDataUrl = (value: unknown): unknown =>
  typeof value !== 'string' || value === '' || value.startsWith('data:')
    ? value
    : `data:image/png;base64,${value}`
