import { ASPECT_RATIOS } from '../../../../language/image.ts'
import { CHAT, type ImageCapabilities } from '../capabilities.data.ts'

/** How the models of one family are asked, each of which has a path of its own at fal. */
export interface FalFamily {
  /** The beginnings of its paths. */
  paths: RegExp
  /** By pixels (`image_size`), or by `aspect_ratio`. */
  sized: boolean
  /** The tiers of `resolution` that it takes. */
  resolutions: ImageCapabilities['resolutions']
  /** Which pictures it takes: the field, how many, and what the path ends in then. */
  references: { field: 'image_url' | 'image_urls'; most: number; ending: string } | null
  /** What the path ends in without pictures. */
  ending: string
}

const CHANGED = { field: 'image_urls', most: 10, ending: '/edit' } as const

const USUAL: FalFamily = {
  paths: /^/,
  sized: true,
  resolutions: [],
  references: null,
  ending: '',
}

/** The families, by https://fal.ai/models: the first that a path begins with. */
const FAMILIES: FalFamily[] = [
  {
    ...USUAL,
    paths: /^fal-ai\/flux-pro\/kontext/,
    sized: false,
    references: { field: 'image_url', most: 1, ending: '' },
    ending: '/text-to-image',
  },
  {
    ...USUAL,
    paths: /^fal-ai\/(nano-banana-|gemini-3)/,
    sized: false,
    resolutions: ['1K', '2K', '4K'],
    references: CHANGED,
  },
  { ...USUAL, paths: /^fal-ai\/(nano-banana|gemini-)/, sized: false, references: CHANGED },
  { ...USUAL, paths: /^fal-ai\/(imagen|flux-pro\/v1\.1-ultra)/, sized: false },
  { ...USUAL, paths: /^fal-ai\/flux-2/, references: CHANGED },
  {
    ...USUAL,
    paths: /^fal-ai\/bytedance\/seedream\/v4(\.5)?/,
    references: { ...CHANGED, ending: '/edit' },
    ending: '/text-to-image',
  },
  {
    ...USUAL,
    paths: /^fal-ai\/flux(-1)?\/dev/,
    references: { field: 'image_url', most: 1, ending: '/image-to-image' },
  },
  USUAL,
]

/** Returns the family of a model, by its path. */
export const findFamily = (model: string): FalFamily =>
  FAMILIES.find(({ paths }) => paths.test(model)) ?? USUAL

/** Returns what a model of fal can be asked for. */
export function getFalCapabilities(model: string): ImageCapabilities {
  const { sized, resolutions, references } = findFamily(model)
  return {
    ...CHAT,
    n: 4,
    references: references?.most ?? 0,
    aspect_ratios: sized ? ASPECT_RATIOS : CHAT.aspect_ratios,
    resolutions: sized ? ['512', '1K', '2K'] : resolutions.length > 0 ? resolutions : ['1K'],
    size: sized,
    output_formats: ['png', 'jpeg'],
    passthrough: [
      ...['guidance_scale', 'num_inference_steps', 'negative_prompt', 'strength'],
      ...['enable_safety_checker', 'safety_tolerance', 'acceleration'],
    ],
  }
}
