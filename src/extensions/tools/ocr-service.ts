import type { OcrConfig } from '../../config/tools.ts'
import type { Config } from '../../config.ts'
import { buildBearer, type EngineRequest } from './web-search/engine.ts'

/** The service that recognizes the text of PDFs for the plugin file-parser: Mistral's. */
export const OCR_SERVICE = {
  name: 'mistral-ocr',
  /** Whose service it is, for the rules that bound providers. */
  provider: 'mistral',
  /** The model that reads, where the config names none. */
  model: 'mistral-ocr-latest',
  baseUrl: 'https://api.mistral.ai',
  /** Returns the request for the text of a PDF (Mistral, `POST /v1/ocr`). */
  buildRequest: (url: string, settings: OcrConfig): EngineRequest => ({
    path: '/v1/ocr',
    headers: buildBearer(settings),
    body: {
      model: settings.model ?? OCR_SERVICE.model,
      document: { type: 'document_url', document_url: url },
      include_image_base64: false,
    },
  }),
  /** Returns a request that costs nothing and needs the key: for the list of models. */
  buildProbe: (settings: Pick<OcrConfig, 'api_key'>): EngineRequest => ({
    path: '/v1/models',
    headers: buildBearer(settings),
  }),
}

/** Returns why no text can be recognized with this config; null if it can. */
export function findOcrObstacle({ plugins: { mistral_ocr: settings } }: Config): string | null {
  const path = 'plugins.mistral_ocr'
  if (!settings) return `it is not configured (${path})`
  if (settings.enabled === false) return `it is switched off (${path}.enabled)`
  return settings.api_key === undefined ? `it has no key (${path}.api_key)` : null
}
