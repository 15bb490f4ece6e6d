/** Video: the request to make one, and the answer, which is a job at a provider. */

import type { CallBase } from './call.ts'
import { type PixelSize, pickNearest } from './image.ts'
import type { CommonPart, StartPart } from './part.ts'
import type { Units } from './usage.ts'

declare module './work.ts' {
  interface Work {
    video: { call: VideoCall; part: VideoPart }
  }
}

/** A request to make a video from a prompt, pictures or both. */
export interface VideoCall extends CallBase {
  kind: 'video'
  /** The id that the caller will know the job by. */
  job_id: string
  /** Empty where pictures alone are enough. */
  prompt: string
  /** What it begins or ends with. */
  frames: VideoFrame[]
  /** What it is to look or sound like. */
  references: VideoReference[]
  params: VideoParams
  /** Where the end of the job is told; absent if it is told to no one. */
  callback_url?: string
  /** Parameters that mean something to one provider only, by its slug. */
  options: Record<string, Record<string, unknown>>
}

/** A picture by URL, and its place in the video. */
export interface VideoFrame {
  type: FrameType
  url: string
}

export const FRAME_TYPES = ['first_frame', 'last_frame'] as const
export type FrameType = (typeof FRAME_TYPES)[number]

/** A reference by URL. */
export interface VideoReference {
  type: 'image' | 'audio' | 'video'
  url: string
}

/** The parameters of `POST /videos`, under their wire names. */
export interface VideoParams {
  /** Whole seconds. */
  duration?: number
  resolution?: VideoResolution
  aspect_ratio?: VideoRatio
  /** Exact pixels. They agree with `resolution` and `aspect_ratio`, if the call names those too. */
  size?: PixelSize
  generate_audio?: boolean
  seed?: number
  upscale_factor?: number
  creativity?: number
}

/** The resolutions that calls may name, and how many pixels the short side has. */
export const VIDEO_RESOLUTIONS = {
  '480p': 480,
  '720p': 720,
  '768p': 768,
  '1080p': 1080,
  '1K': 1080,
  '2K': 1440,
  '4K': 2160,
} as const
export type VideoResolution = keyof typeof VIDEO_RESOLUTIONS

/** Returns the resolution among these whose lines are nearest to these pixels. */
export function pickNearestResolution(
  { width, height }: PixelSize,
  resolutions: readonly VideoResolution[],
): VideoResolution | undefined {
  const lines = Math.min(width, height)
  const distance = (one: VideoResolution) => Math.abs(Math.log(lines / VIDEO_RESOLUTIONS[one]))
  return pickNearest(resolutions, distance)
}

/** The ratios of width to height that calls may name. */
export const VIDEO_RATIOS = [
  ...['16:9', '9:16', '1:1', '4:3', '3:4', '3:2', '2:3', '21:9', '9:21'],
] as const
export type VideoRatio = (typeof VIDEO_RATIOS)[number]

/** A piece of the answer: what the provider calls the job that it has begun. */
export type VideoPart = StartPart | { type: 'job'; upstream_id: string } | CommonPart

/** The seconds of a call that names none, where the provider chooses: a usual length. */
export const USUAL_SECONDS = 8

/** Above these pixels of the short side the price of a higher resolution applies. */
const MOST_OF_USUAL = 800
const MOST_OF_HIGH = 1_200

/** Seconds are counted in thousandths. */
const PARTS = 1_000

/** Counts a video of so many seconds in what is charged for: itself, and its seconds. */
export function countVideoUnits(params: VideoParams, seconds: number): Units {
  const side = getShortSide(params)
  const count = Math.ceil(seconds * PARTS)
  if (side <= MOST_OF_USUAL) return { video: 1, second: count }
  return side <= MOST_OF_HIGH ? { video: 1, second_1080p: count } : { video: 1, second_4k: count }
}

// Without a resolution, providers make 720p.
const getShortSide = ({ size, resolution = '720p' }: VideoParams): number =>
  size ? Math.min(size.width, size.height) : VIDEO_RESOLUTIONS[resolution]
