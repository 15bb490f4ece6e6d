/** The name of this protocol on Google's Vertex AI, where the same body goes to another place and media by URL are not fetched. */
export const VERTEX = 'anthropic-vertex'
