import { invalid } from '../../base/errors.ts'
import type { Block } from '../../language/message.ts'
import type { TextRewrite } from '../../language/text-segment.ts'
import {
  countVideoUnits,
  USUAL_SECONDS,
  type VideoCall,
  type VideoReference,
} from '../../language/video.ts'
import type { Endpoint } from '../../resources/models/catalog.ts'
import {
  fitVideo,
  listIgnoredVideo,
  listUnsupportedVideo,
  listUsable,
} from '../../translation/protocols/videos/capabilities.ts'
import { defineKind, requireAll } from './define-kind.ts'
import type { MediaReference } from './media.ts'

/** Ours, not in the public list: the endpoint cannot make a video as the call asks. */
export const VIDEO_PARAMETERS = 'video_parameters'

/**
 * Videos made of a prompt or pictures. The answer is the job that makes one. The charge is for the
 * video and its seconds, once they are there.
 */
export const video = defineKind<'video'>({
  apiType: 'video',
  outputName: 'video',
  isMeaningful: ({ type }) => type === 'job',
  beginsJob: true,
  understanding: {
    checkCounts,
    readContents,
    replaceContents,
    checkEndpoint: (call, endpoint) =>
      listUnsupportedVideo(call, endpoint).length > 0
        ? VIDEO_PARAMETERS
        : requireAll(call, listIgnoredVideo(call, endpoint)),
    supportsPreferred: (call, endpoint) => listIgnoredVideo(call, endpoint).length === 0,
    listIgnored: listIgnoredVideo,
    fitToEndpoint,
    listMedia,
    replaceUrls,
  },
  costing: {
    estimateUnits: ({ params }) => countVideoUnits(params, params.duration ?? USUAL_SECONDS),
    boundUnits(call, endpoint) {
      const params = fitVideo(call.params, endpoint)
      return countVideoUnits(params, params.duration ?? MOST_SECONDS)
    },
  },
  filtering: { rewriteOther },
  // What was made is known when the job is done.
  metering: { countUnits: () => ({}) },
})

// Whom a callback goes to is sent its URL, too.
async function rewriteOther(call: VideoCall, rewriteSegment: TextRewrite): Promise<VideoCall> {
  const { callback_url: url } = call
  if (url === undefined) return call
  const [callback_url = url] = await rewriteSegment({ role: 'user', pieces: [url], isJson: false })
  return { ...call, callback_url }
}

/** No provider makes a longer video of a call that names no length. */
const MOST_SECONDS = 15

/** Throws 400 where there is nothing to make a video of. */
function checkCounts({ prompt, frames, references }: VideoCall): void {
  if (prompt === '' && frames.length + references.length === 0)
    throw invalid('prompt: expected a text, frame_images or input_references', 'prompt')
}

/** The prompt, and the pictures in their order. Other references are not read, but listed. */
function readContents({ prompt, frames, references }: VideoCall): Block[][] {
  return [
    [
      { type: 'text', text: prompt },
      ...frames.map(({ url }, i) => toPicture(url, `frame_images.${i}.image_url.url`)),
      ...references.flatMap((reference, i) => toBlock(reference, i)),
    ],
  ]
}

const toPicture = (url: string, field: string): Block => ({ type: 'image', url, field })

// Sound has no block by URL. It goes to providers that fetch it themselves.
function toBlock({ type, url }: VideoReference, i: number): Block[] {
  const field = `input_references.${i}.${type}_url.url`
  if (type === 'image') return [toPicture(url, field)]
  return type === 'video' ? [{ type, url, field }] : []
}

function replaceContents(call: VideoCall, [blocks = []]: Block[][]): VideoCall {
  const text = blocks.find(block => block.type === 'text')
  const urls = blocks.flatMap(block =>
    block.type === 'image' || block.type === 'video' ? [block.url] : [],
  )
  return {
    ...call,
    prompt: text?.text ?? '',
    frames: call.frames.map(frame => ({ ...frame, url: urls.shift() ?? frame.url })),
    references: call.references.map(reference =>
      reference.type === 'audio' ? reference : { ...reference, url: urls.shift() ?? reference.url },
    ),
  }
}

function listMedia({ frames, references }: VideoCall): MediaReference[] {
  return [
    ...frames.map(({ url }, i) => ({
      kind: 'image' as const,
      url,
      field: `frame_images.${i}.image_url.url`,
    })),
    ...references.map(({ type, url }, i) => ({
      kind: type,
      url,
      field: `input_references.${i}.${type}_url.url`,
    })),
  ]
}

function replaceUrls(call: VideoCall, urls: Map<string, string>): VideoCall {
  const replace = <Item extends { url: string }>(item: Item): Item => ({
    ...item,
    url: urls.get(item.url) ?? item.url,
  })
  return {
    ...call,
    frames: call.frames.map(replace),
    references: call.references.map(replace),
  }
}

function fitToEndpoint(call: VideoCall, endpoint: Endpoint): VideoCall {
  const params = fitVideo(call.params, endpoint)
  const references = listUsable(call.references, endpoint)
  if (params === call.params && references === call.references) return call
  return { ...call, params, references }
}
