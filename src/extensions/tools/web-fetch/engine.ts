import type { FetchEngineConfig, FetchEngineName } from '../../../config/tools.ts'
import type { EngineRequest } from '../web-search/engine.ts'

/** A page to read, as every service is asked. */
export interface PageQuestion {
  url: string
  /** The most characters of its text. */
  maxCharacters: number
}

/** A page as a service has read it. */
export interface ReadPage {
  /** Its URL after redirects, as the service says; null if it says nothing. */
  url: string | null
  title: string | null
  text: string
  /** What the page's own server has answered; null if the service says nothing. */
  status: number | null
}

/** What a service says of a page that it could not read. */
interface UnreadPage {
  /** What the page's own server has answered; null if the service says nothing. */
  failed: number | null
}

/** A service that reads pages: its name, and the form of its requests and answers. Pure. */
export interface FetchEngine {
  name: FetchEngineName
  /** Its public address. */
  baseUrl: string
  /** Returns the request for a page. */
  buildRequest(question: PageQuestion, settings: FetchEngineConfig): EngineRequest
  /** Reads a JSON answer. Returns null if it is no answer of this service. */
  readPage(answer: unknown): ReadPage | UnreadPage | null
  /** Returns a request that costs nothing and needs the key, as that of a search engine. */
  buildProbe(settings: FetchEngineConfig): EngineRequest
}

/** Returns an HTTP status; null for anything else. */
export const readStatus = (value: unknown): number | null =>
  typeof value === 'number' && Number.isInteger(value) && value >= 100 && value <= 599
    ? value
    : null
