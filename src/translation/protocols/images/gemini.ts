import { isObject, omitUndefined, readObjects } from '../../../base/json.ts'
import { countPictures, type ImageCall, type ImagePart } from '../../../language/image.ts'
import type { Endpoint } from '../../../resources/models/catalog.ts'
import { unreadableAnswer } from '../failure.ts'
import { readFailure, readStreamFailure } from '../gemini/failure.ts'
import { gemini } from '../gemini.ts'
import { imageDefaults, pickRatio, readOptions, readPicture, toImageParts } from '../images.ts'
import type { Protocol, UpstreamRequest } from '../protocol.ts'
import { getImageCapabilities, isImagen, pickCompression, pickFormat } from './capabilities.ts'
import { drawByChat } from './chat.ts'
import { readAnswerFailure } from './refusal.ts'

/** Imagen's `:predict` (https://ai.google.dev/gemini-api/docs/imagen). */
const imagen: Protocol<'image'> = { ...imageDefaults, buildRequest, parseAnswer, readFailure }

const byChat = drawByChat(gemini)

/** Google's models that draw: Gemini in a conversation, Imagen by `:predict`. */
export const geminiImages: Protocol<'image'> = {
  ...imagen,
  buildRequest: (call, endpoint) =>
    (isImagen(endpoint) ? imagen : byChat).buildRequest(call, endpoint),
  parseAnswer: (body, call, endpoint) =>
    (isImagen(endpoint) ? imagen : byChat).parseAnswer(body, call, endpoint),
}

function buildRequest(call: ImageCall, endpoint: Endpoint): UpstreamRequest {
  const { resolutions } = getImageCapabilities(endpoint)
  const resolution = resolutions.length > 1 ? call.params.resolution : undefined
  const format = pickFormat(call, endpoint)
  const mimeType = format === undefined ? undefined : `image/${format}`
  const compressionQuality = pickCompression(call, endpoint)
  const outputOptions = omitUndefined({ mimeType, compressionQuality })
  const parameters = {
    // Without it, nothing says why a picture was not shown.
    includeRaiReason: true,
    ...readOptions(call, endpoint),
    ...omitUndefined({
      sampleCount: countPictures(call),
      aspectRatio: pickRatio(call, endpoint),
      sampleImageSize: resolution,
      outputOptions: Object.keys(outputOptions).length > 0 ? outputOptions : undefined,
    }),
  }
  const path = `/models/${encodeURIComponent(endpoint.upstreamModel)}:predict`
  return { path, body: { instances: [{ prompt: call.prompt }], parameters } }
}

function parseAnswer(body: unknown, call: ImageCall): ImagePart[] {
  if (!isObject(body)) throw unreadableAnswer()
  if (isObject(body.error)) throw readAnswerFailure(body.error, readStreamFailure)
  const pictures = readObjects(body.predictions).flatMap(({ bytesBase64Encoded }) =>
    readPicture(bytesBase64Encoded, undefined),
  )
  return toImageParts(call, body, { pictures })
}
