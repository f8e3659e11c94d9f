import './style/tokens.css';
import './style/base.css';
import './lib/theme';
import { render } from 'preact';
import { followDownloads } from './api/downloads';
import { App } from './app';
import { writeOutEverywhere } from './lib/bidi';
import { attempt } from './parts/overlays';

writeOutEverywhere();
followDownloads(attempt);
render(<App />, document.body);
