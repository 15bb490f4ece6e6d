import { parseDataUrl } from '../../../base/data-url.ts'
import type { GatewayError } from '../../../base/errors.ts'
import { isObject, type Json, omitUndefined, readObject, readString } from '../../../base/json.ts'
import type { ImageCall, ImagePart } from '../../../language/image.ts'
import type { Endpoint } from '../../../resources/models/catalog.ts'
import { findMessage, translateFailure, unreadableAnswer } from '../failure.ts'
import {
  imageDefaults,
  pickPixels,
  pickRatio,
  readOptions,
  readPicture,
  toImageParts,
} from '../images.ts'
import { goesOn, readJobWord } from '../job-words.ts'
import type { FollowUp, Protocol, UpstreamRequest } from '../protocol.ts'
import { getImageCapabilities, pickFormat } from './capabilities.ts'
import { readAnswerFailure } from './refusal.ts'

/**
 * Black Forest Labs: `POST {base_url}/{model}` takes the work, and the address in its answer tells
 * when it is done and where the picture is (https://docs.bfl.ai/quick_start/generating_images).
 */
export const bflImages: Protocol<'image'> = {
  ...imageDefaults,
  buildRequest: (call, endpoint) => ({
    path: `/${encodeURIComponent(endpoint.upstreamModel)}`,
    body: buildTask(call, endpoint),
  }),
  readPending,
  parseAnswer: parseTask,
  readFailure,
}

/** Sides are multiples of this. */
const GRID = 32

/** Builds the body with which FLUX is asked. */
export function buildTask(call: ImageCall, endpoint: Endpoint): UpstreamRequest['body'] {
  const output_format = pickFormat(call, endpoint)
  const shape = getImageCapabilities(endpoint).size
    ? pickPixels(call, GRID)
    : { aspect_ratio: pickRatio(call, endpoint) }
  return {
    ...readOptions(call, endpoint),
    ...omitUndefined({ prompt: call.prompt, ...shape, seed: call.params.seed, output_format }),
    ...renderReferences(call, endpoint),
  }
}

/** The older models take one picture as a prompt, the others each under a name of its own. */
function renderReferences({ references }: ImageCall, { upstreamModel }: Endpoint): Json {
  const isPrompt = !/kontext|flux-[2-9]/.test(upstreamModel)
  return Object.fromEntries(
    references.map((url, i) => [
      isPrompt ? 'image_prompt' : i === 0 ? 'input_image' : `input_image_${i + 1}`,
      parseDataUrl(url).data,
    ]),
  )
}

function readPending(body: unknown, _: Endpoint, asked: FollowUp | null): FollowUp | null {
  if (!isObject(body)) return null
  if (asked) return goesOn(body.status) ? asked : null
  const id = readString(body.id)
  const url = readString(body.polling_url)
  if (id === null || body.result != null) return null
  return {
    ...(url === null ? {} : { url }),
    path: `/get_result?id=${encodeURIComponent(id)}`,
  }
}

/** Reads the answer that ends the work: the URL of the picture, or why there is none. */
export function parseTask(body: unknown, call: ImageCall): ImagePart[] {
  if (!isObject(body)) throw unreadableAnswer()
  const { sample } = readObject(body, 'result')
  const pictures = readPicture(undefined, sample)
  const word = readJobWord(body.status)
  if (word !== 'completed' && !(word === 'unknown' && pictures.length > 0))
    throw readAnswerFailure(body, () => readFailure(502, body))
  return toImageParts(call, body, { pictures, upstream_id: readString(body.id) })
}

function readFailure(status: number, body: unknown): GatewayError {
  const { details, status: word } = isObject(body) ? body : {}
  const message = findMessage(details ?? body) ?? word
  // No credits (402) and too many tasks at once (429) are told by the status.
  return translateFailure(status, { code: null, message })
}
