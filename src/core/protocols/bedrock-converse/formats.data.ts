/** What Converse calls the kinds of media that it takes (API reference, ImageBlock, VideoBlock, DocumentBlock, AudioBlock). */

export const IMAGES: Record<string, string> = {
  'image/gif': 'gif',
  'image/jpeg': 'jpeg',
  'image/jpg': 'jpeg',
  'image/png': 'png',
  'image/webp': 'webp',
}

export const VIDEOS: Record<string, string> = {
  'video/3gpp': 'three_gp',
  'video/mp4': 'mp4',
  'video/mpeg': 'mpeg',
  'video/mpg': 'mpg',
  'video/quicktime': 'mov',
  'video/webm': 'webm',
  'video/wmv': 'wmv',
  'video/x-flv': 'flv',
  'video/x-matroska': 'mkv',
  'video/x-ms-wmv': 'wmv',
}

export const DOCUMENTS: Record<string, string> = {
  'application/msword': 'doc',
  'application/pdf': 'pdf',
  'application/vnd.ms-excel': 'xls',
  'application/vnd.openxmlformats-officedocument.spreadsheetml.sheet': 'xlsx',
  'application/vnd.openxmlformats-officedocument.wordprocessingml.document': 'docx',
  'text/csv': 'csv',
  'text/html': 'html',
  'text/markdown': 'md',
  'text/plain': 'txt',
  'text/x-markdown': 'md',
}

export const AUDIO = new Set([
  'aac',
  'flac',
  'm4a',
  'mka',
  'mkv',
  'mp3',
  'mp4',
  'mpeg',
  'mpga',
  'ogg',
  'opus',
  'pcm',
  'wav',
  'webm',
  'x-aac',
])
