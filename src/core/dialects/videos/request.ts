import { invalid } from '../../errors.ts'
import type { Actor } from '../../identity/actor.ts'
import { readVideoSize } from '../../inference/kinds/video/params.ts'
import { isDataUrl } from '../../kernel/data-url.ts'
import { omitUndefined } from '../../kernel/json.ts'
import type { VideoCall, VideoFrame, VideoReference } from '../../language/video.ts'
import type { CallContext } from '../dialect.ts'
import { readProviderOptions } from '../provider-options.ts'
import { buildCallBase } from '../routing.ts'
import type { DialectWorld } from '../world.ts'
import { readVideosForm } from './form.ts'
import type { VideosForm, VideosRequest } from './schema.ts'

/**
 * Translates a checked body into a call. Throws 400 for sizes that contradict each other, for a
 * frame that is named twice, for what is no URL, for a sound or video in the body itself, for a file
 * that is no picture, and for an empty list of allowed providers.
 */
export function toVideoCall(
  world: DialectWorld,
  actor: Actor,
  fields: VideosRequest | VideosForm,
  context: CallContext,
): VideoCall {
  const body = readVideosForm(fields, context.file)
  const { model, provider, user, session_id, trace } = body
  return {
    ...buildCallBase(
      world,
      actor,
      { model, ...omitUndefined({ provider, user, session_id, trace }) },
      context,
    ),
    kind: 'video',
    job_id: `job-${world.ids.secret().slice(-ID_LENGTH)}`,
    prompt: body.prompt ?? '',
    frames: readFrames(body.frame_images ?? []),
    references: (body.input_references ?? []).map(readReference),
    params: readParams(body),
    ...omitUndefined({ callback_url: body.callback_url ?? undefined }),
    options: readProviderOptions(provider),
  }
}

/** An id of 128 random bits cannot be guessed. */
const ID_LENGTH = 32

function readParams(body: VideosRequest): VideoCall['params'] {
  const { duration, generate_audio, seed, upscale_factor, creativity } = body
  const given = { duration, generate_audio, seed, upscale_factor, creativity }
  return {
    ...Object.fromEntries(Object.entries(given).filter(([, value]) => value != null)),
    ...readVideoSize(body),
  }
}

function readFrames(frames: NonNullable<VideosRequest['frame_images']>): VideoFrame[] {
  const read = frames.map(({ frame_type: type, image_url: { url } }, i) => ({
    type,
    url: checkUrl(url, `frame_images.${i}.image_url.url`, true),
  }))
  const [first, second] = read
  if (first && second && first.type === second.type)
    throw invalid(
      `frame_images.1.frame_type: expected another than ${first.type}, as that is taken`,
      'frame_images.1.frame_type',
    )
  return read
}

function readReference(
  reference: NonNullable<VideosRequest['input_references']>[number],
  i: number,
): VideoReference {
  const field = `input_references.${i}.${reference.type}.url`
  if (reference.type === 'image_url')
    return { type: 'image', url: checkUrl(reference.image_url.url, field, true) }
  return reference.type === 'audio_url'
    ? { type: 'audio', url: checkUrl(reference.audio_url.url, field, false) }
    : { type: 'video', url: checkUrl(reference.video_url.url, field, false) }
}

function checkUrl(url: string, field: string, mayBeData: boolean): string {
  if (/^https?:\/\//i.test(url) || (mayBeData && isDataUrl(url))) return url
  const expected = mayBeData ? 'a data URL or an http(s) URL' : 'an http(s) URL'
  throw invalid(`${field}: expected ${expected}`, field)
}
