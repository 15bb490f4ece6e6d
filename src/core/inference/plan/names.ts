import type { Endpoint } from '../../catalog/models.ts'

/** Whether an endpoint goes by this name: its provider's slug, or that with its region or its quantization (wire reference C.3). */
export function isCalled({ provider: { slug }, region, quantization }: Endpoint, name: string): boolean {
  if (!name.startsWith(slug)) return false
  const suffix = name.slice(slug.length)
  return suffix === '' || suffix === `/${region}` || suffix === `/${quantization}`
}
